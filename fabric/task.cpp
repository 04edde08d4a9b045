#include <sidelatch/fabric/task.h>

#include <stdexcept>
#include <string>

namespace sidelatch::fabric {

namespace {

// How many tasks that have not ended this thread is destroying, one within the other. Nobody else knows where that is:
// a frame that has its address is another one in each thread, and a world that explores compares frames.
constinit thread_local unsigned tasks_in_destruction = 0;

}  // namespace

void detail::refuse_empty_task(const char* function) {
  throw std::invalid_argument(std::string(function) + ": the task is empty: none was made, or it was moved from");
}

void detail::destroy_unended(std::coroutine_handle<> frame) noexcept {
  ++tasks_in_destruction;
  frame.destroy();
  --tasks_in_destruction;
}

bool destroys_a_task() noexcept { return tasks_in_destruction != 0; }

}  // namespace sidelatch::fabric
