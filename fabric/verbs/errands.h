// Errands: conversations with another machine, in a thread of their own, so that a reactor's thread does not wait.
//
//   Errands errands(reactor.mailbox(), [&] { conversation.interrupt(); });
//   errands.post([&] { conversation.tell(goodbye); });       // in the order of the calls
//   errands.run([&] { answer = conversation.ask(question); });    // the calling thread waits, and gets exceptions
//   const auto errand = errands.start([=] { *answer = ...; });    // `answer` is shared, as the task may be destroyed
//   co_await reactor.wait_for(errand);                       // only the task waits; get() throws the errand's
//   exception
//
// The thread begins with the first start(); before that, post() and run() work in the calling thread. One errand runs
// at a time.
//
// Thread-safety: an Errands belongs to its reactor's thread; a Mailbox is safe.
#pragma once

#include <sidelatch/fabric/wait_list.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

/// A job and its end.
struct Errand {
  std::function<void()> job;
  std::exception_ptr error;  ///< of the job
  // The rest belongs to the reactor's thread.
  bool is_done = false;
  WaitList waiters;

  /// Throws the job's exception.
  void get() const {
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }
};

/// Takes errands that have ended back to the reactor's thread.
class Mailbox {
 public:
  void put(std::shared_ptr<Errand> ended);
  [[nodiscard]] bool has_mail() const noexcept { return has_mail_.load(std::memory_order_acquire); }
  [[nodiscard]] std::vector<std::shared_ptr<Errand>> take();

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Errand>> ended_;
  std::atomic<bool> has_mail_{false};
};

class Errands {
 public:
  /// `interrupt` makes the running job end soon; any thread may call it.
  Errands(std::shared_ptr<Mailbox> mailbox, std::function<void()> interrupt)
      : mailbox_(std::move(mailbox)), interrupt_(std::move(interrupt)) {}
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;
  /// Interrupts the running job and waits for its end; drops those that have not begun. Their waiters get
  /// Status::disconnected.
  ~Errands();

  /// An exception of `job` is ignored.
  void post(std::function<void()> job);
  void run(const std::function<void()>& job);
  /// Throws FabricError if the thread cannot begin.
  [[nodiscard]] std::shared_ptr<Errand> start(std::function<void()> job);

 private:
  struct Job {
    std::function<void()> work;  // does not throw
    std::shared_ptr<Errand> errand;
  };
  [[nodiscard]] bool has_thread() const noexcept { return thread_.joinable(); }
  void add(Job job);
  void work();

  std::shared_ptr<Mailbox> mailbox_;
  std::function<void()> interrupt_;
  std::mutex mutex_;
  std::condition_variable has_job_;
  std::deque<Job> jobs_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace sidelatch::fabric::verbs
