#include "errands.h"

#include "start_thread.h"

#include <sidelatch/fabric/error.h>

#include <future>
#include <system_error>
#include <utility>

namespace sidelatch::fabric::verbs {

void Mailbox::put(std::shared_ptr<Errand> ended) {
  const std::unique_lock lock(mutex_);
  ended_.push_back(std::move(ended));
  has_mail_.store(true, std::memory_order_release);
}

std::vector<std::shared_ptr<Errand>> Mailbox::take() {
  const std::unique_lock lock(mutex_);
  has_mail_.store(false, std::memory_order_relaxed);
  return std::exchange(ended_, {});
}

Errands::~Errands() {
  if (!has_thread()) {
    return;
  }
  {
    const std::unique_lock lock(mutex_);
    ends_ = true;
    for (Job& job : jobs_) {
      if (job.errand != nullptr) {
        job.errand->error =
            std::make_exception_ptr(FabricError(Status::disconnected, "the node was destroyed before it was asked"));
        mailbox_->put(std::move(job.errand));
      }
    }
    jobs_.clear();
  }
  has_job_.notify_all();
  interrupt_();
  thread_.join();
}

void Errands::add(Job job) {
  {
    const std::unique_lock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  has_job_.notify_all();
}

void Errands::post(std::function<void()> job) {
  auto quiet = [job = std::move(job)] {
    try {
      job();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): as promised
    }
  };
  if (has_thread()) {
    add({std::move(quiet), nullptr});
  } else {
    quiet();
  }
}

void Errands::run(const std::function<void()>& job) {
  if (!has_thread()) {
    job();
    return;
  }
  std::promise<void> ended;
  add({[&] {
         try {
           job();
           ended.set_value();
         } catch (...) {
           ended.set_exception(std::current_exception());
         }
       },
       nullptr});
  ended.get_future().get();
}

std::shared_ptr<Errand> Errands::start(std::function<void()> job) {
  auto errand = std::make_shared<Errand>();
  errand->job = std::move(job);
  if (!has_thread()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw FabricError(Status::device_failure, no_thread_text("to wait for the other end in", error));
    }
  }
  const auto work = [errand, mailbox = mailbox_] {
    try {
      errand->job();
    } catch (...) {
      errand->error = std::current_exception();
    }
    mailbox->put(errand);
  };
  add({work, errand});
  return errand;
}

void Errands::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    has_job_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (ends_) {
      return;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.work();
    job = {};
    lock.lock();
  }
}

}  // namespace sidelatch::fabric::verbs
