// How a task has ended: for tests of requests and messages that fail.
//
//   End end;
//   reactor.spawn(note_end(submit(*qp, request), &end));
#pragma once

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/task.h>

#include <optional>
#include <string>
#include <type_traits>

namespace sidelatch::fabric {

struct End {
  bool over = false;
  std::optional<Status> status;
  std::string what;
};

template <class T>
Task<void> note_end(Task<T> task, End* end) {
  try {
    if constexpr (std::is_void_v<T>) {
      co_await task;
    } else {
      (void)co_await task;
    }
  } catch (const FabricError& error) {
    end->status = error.status();
    end->what = error.what();
  }
  end->over = true;
}

}  // namespace sidelatch::fabric
