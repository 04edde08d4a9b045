// The end of a process: what other threads and late destructors notice of it. With a driver of the kernel that is
// nothing, because the device works until the process is gone.
#include "cm_channel.h"
#include "programs.h"
#include "verbs_calls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

namespace sidelatch::softnic {
namespace {

namespace leaving {

constexpr int kRight = 17;
constexpr int kWrong = 18;

// Its destructor runs at exit() after those of the library, which was loaded later. It ends the process.
struct LastDestructor {
  LastDestructor() = default;
  LastDestructor(const LastDestructor&) = delete;
  LastDestructor& operator=(const LastDestructor&) = delete;
  ~LastDestructor() {
    if (is_right) {
      ::_exit(is_right() ? kRight : kWrong);
    }
  }
  std::function<bool()> is_right;
};
LastDestructor last;

[[noreturn]] void exit_with(std::function<bool()> check) {
  last.is_right = std::move(check);
  std::exit(0);  // NOLINT(concurrency-mt-unsafe)
}

TEST(Leaving, ADestructorThatRunsLastEndsItsObjects) {
  const auto in_child = [] {
    const Verbs& library = Verbs::load();
    ibv_device** const list = library.get_device_list(nullptr);
    ibv_context* const device = library.open_device(list[0]);
    ibv_pd* const its_domain = library.alloc_pd(device);
    ibv_cq* const completions = library.create_cq(device, 16, nullptr, nullptr, 0);
    exit_with([=, &library] {
      return library.destroy_cq(completions) == 0 && library.dealloc_pd(its_domain) == 0 &&
             library.close_device(device) == 0;
    });
  };
  EXPECT_EXIT(in_child(), ::testing::ExitedWithCode(kRight), "");
}

// As a thread would that still polls, posts and waits.
class InTheChild : public VerbsCalls {
 public:
  void TestBody() override {}
  void leave() {
    ibv_qp* const a = make_pair();
    ibv_qp* const b = make_pair();
    connect(*a, *b);
    if (post_receive(*b, 0) != 0 || ibv_req_notify_cq(queue, 0) != 0) {
      ::_exit(kWrong);
    }
    exit_with([=, this] {
      ibv_sge part = sge(0);
      ibv_wc completion{};
      return !is_readable(channel->fd, 0) && !is_readable(context->async_fd, 0) &&
             ibv_poll_cq(queue, 1, &completion) == 0 && post(*a, request(IBV_WR_RDMA_WRITE, part)) == 0 &&
             post_receive(*b, 0) == 0 && ibv_poll_cq(queue, 1, &completion) == 0;
    });
  }
};

TEST(Leaving, ThreadsLearnNothingOfTheEnd) {
  const auto in_child = [] { (new InTheChild)->leave(); };
  EXPECT_EXIT(in_child(), ::testing::ExitedWithCode(kRight), "");
}

// The other side learns it as always.
TEST(Leaving, ThreadsGetNoEventOfAConnection) {
  static_cast<void>(Verbs::load());
  const std::uint16_t port = free_port();
  const Mark listens;
  const pid_t server = start([&] {
    const CmChannel channel;
    channel.listen_at(port);
    listens.set();
    channel.serve();
    channel.expect(cm::IdEventKind::disconnected);
    return true;
  });
  const pid_t client = start([&] {
    const auto* const channel = new CmChannel;
    listens.wait();
    channel->connect(port);
    exit_with([=] { return !is_readable(channel->descriptor(), 0); });
    return false;
  });
  int status = 0;
  EXPECT_EQ(::waitpid(client, &status, 0), client);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kRight);
  EXPECT_TRUE(succeeds(server));
}

}  // namespace leaving

}  // namespace
}  // namespace sidelatch::softnic
