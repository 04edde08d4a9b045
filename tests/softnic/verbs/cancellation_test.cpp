// pthread_cancel(3) of a thread that waits for an event: the thread ends, as with the kernel, and the rest of the
// program goes on. libiscsi ends its thread so at each disconnect. A failure would end the process, so each test has
// its own.
#include "verbs_library.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sidelatch::softnic {
namespace {

constexpr const char* kDevice = "/dev/infiniband/rdma_cm";

// What rdma_get_cm_event(3) writes.
struct GetEvent {
  rdma_ucm_cmd_hdr header{.cmd = RDMA_USER_CM_CMD_GET_EVENT, .in = sizeof(rdma_ucm_get_event), .out = 0};
  rdma_ucm_get_event body{};
};

ssize_t get_cm_event(const Verbs& verbs, int channel) {
  static rdma_ucm_event_resp response;
  GetEvent command;
  command.header.out = sizeof response;
  command.body.response = reinterpret_cast<std::uintptr_t>(&response);
  return verbs.write(channel, &command, sizeof command);
}

// Starts a thread and cancels it, sooner or later than it begins to wait.
bool ends_when_cancelled(std::function<void()> wait) {
  pthread_t thread{};
  const auto run = [](void* given) -> void* {
    (*static_cast<std::function<void()>*>(given))();
    return nullptr;
  };
  void* result = nullptr;
  return ::pthread_create(&thread, nullptr, run, &wait) == 0 && ::pthread_cancel(thread) == 0 &&
         ::pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED;
}

[[noreturn]] void exit_if(bool is_right) { ::_exit(is_right ? 0 : 1); }

TEST(Cancellation, OfAThreadThatWaitsForAConnection) {
  const auto in_child = [] {
    const Verbs& verbs = Verbs::load();
    const int channel = verbs.open(kDevice, O_RDWR | O_CLOEXEC);
    const bool has_ended = ends_when_cancelled([&] { get_cm_event(verbs, channel); });
    // Nothing is left locked, and the channel still serves others.
    const bool goes_on = ends_when_cancelled([&] { get_cm_event(verbs, channel); }) && verbs.close(channel) == 0 &&
                         verbs.open(kDevice, O_RDWR) >= 0;
    exit_if(channel >= 0 && has_ended && goes_on);
  };
  EXPECT_EXIT(in_child(), ::testing::ExitedWithCode(0), "");
}

TEST(Cancellation, OfAThreadThatWaitsForACompletion) {
  const auto in_child = [] {
    const Verbs& verbs = Verbs::load();
    ibv_device** const list = verbs.get_device_list(nullptr);
    ibv_context* const context = verbs.open_device(list[0]);
    ibv_comp_channel* const channel = verbs.create_comp_channel(context);
    const bool has_ended = ends_when_cancelled([&] {
      ibv_cq* queue = nullptr;
      void* user = nullptr;
      verbs.get_cq_event(channel, &queue, &user);
    });
    exit_if(has_ended && verbs.destroy_comp_channel(channel) == 0);
  };
  EXPECT_EXIT(in_child(), ::testing::ExitedWithCode(0), "");
}

TEST(Cancellation, OfAThreadThatWaitsForAnAsynchronousEvent) {
  const auto in_child = [] {
    const Verbs& verbs = Verbs::load();
    ibv_device** const list = verbs.get_device_list(nullptr);
    ibv_context* const context = verbs.open_device(list[0]);
    const bool has_ended = ends_when_cancelled([&] {
      ibv_async_event event{};
      verbs.get_async_event(context, &event);
    });
    exit_if(has_ended && verbs.close_device(context) == 0);
  };
  EXPECT_EXIT(in_child(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sidelatch::softnic
