#include "process_nic.h"

#include "objects.h"

#include "softnic/nic/gone_pages.h"

#include <fmt/format.h>

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>

namespace sidelatch::softnic::verbs {

namespace {

// A guest that has just booted may take a second or two to answer.
constexpr std::chrono::seconds kResolveLimit{3};

struct Process {
  std::mutex mutex;
  std::weak_ptr<ProcessNic> nic;
  std::shared_ptr<ProcessNic> kept;
  int keepers = 0;
  pid_t owner = 0;                                     // of `nic`
  std::vector<std::shared_ptr<ProcessNic>> inherited;  // from parents, by fork()
};

// Never destroyed: other threads may call verbs while the process exits.
Process& process() {
  static auto* const kProcess = new Process;
  return *kProcess;
}

const char* variable(const char* name) { return std::getenv(name); }  // NOLINT(concurrency-mt-unsafe)

// The child has none of the parent's threads, but shares the wire's memory with it. It therefore forgets the NIC
// without changing it, but gives up the files, whose locks show that the parent lives. An owner that is never destroyed
// keeps any destructor from running, whatever the child closes.
void forget_in_child() {
  Process& ours = process();
  if (std::shared_ptr<ProcessNic> inherited = ours.nic.lock()) {
    inherited->forbid();
    inherited->abandon();
    ours.inherited.push_back(std::move(inherited));  // without memory the child ends, as it would soon anyway
  }
  ours.nic.reset();
  ours.kept.reset();
  ours.keepers = 0;
  ours.mutex.unlock();
}

void watch_forks() {
  static const int kRegistered =
      ::pthread_atfork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); }, [] { forget_in_child(); });
  static_cast<void>(kRegistered);
}

void say_farewell(void* /*unused*/) {
  Process& ours = process();
  if (ours.owner != ::getpid()) {
    return;  // a child of destructors, when the handlers of fork() are gone already
  }
  // exit() called while the lock is held must not hang.
  const std::unique_lock lock(ours.mutex, std::try_to_lock);
  const std::shared_ptr<ProcessNic> nic = lock ? ours.nic.lock() : nullptr;
  if (nic == nullptr) {
    return;
  }
  nic->leave();
  ours.kept = nic;  // not destroyed: running threads may still use contexts that were not closed
}

// When the process exits, its destructor runs among those of libraries, of which later ones may still use the NIC. A
// function that belongs to no library, and is given to exit() so late, runs when all destructors have run.
struct Farewell {
  Farewell() = default;
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;
  ~Farewell() {
    if (abi::__cxa_atexit(say_farewell, nullptr, nullptr) != 0) {
      say_farewell(nullptr);
    }
  }
};
const Farewell kFarewell;

template <class Number, class Object>
Object* find(const std::unordered_map<Number, Object*>& objects, Number number) {
  const auto found = objects.find(number);
  return found == objects.end() ? nullptr : found->second;
}

void report(Context& context, const ibv_async_event& event) {
  context.events.push_back(event);
  context.counter.add();
}

ibv_event_type type_of(nic::Event::Kind kind) {
  switch (kind) {
    case nic::Event::Kind::communication_established:
      return IBV_EVENT_COMM_EST;
    case nic::Event::Kind::send_queue_drained:
      return IBV_EVENT_SQ_DRAINED;
    case nic::Event::Kind::last_receive_reached:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case nic::Event::Kind::queue_pair_fatal:
      return IBV_EVENT_QP_FATAL;
    case nic::Event::Kind::request_error:
      return IBV_EVENT_QP_REQ_ERR;
    case nic::Event::Kind::access_error:
      return IBV_EVENT_QP_ACCESS_ERR;
    case nic::Event::Kind::shared_receive_limit:
      return IBV_EVENT_SRQ_LIMIT_REACHED;
    case nic::Event::Kind::completion_queue_error:
      return IBV_EVENT_CQ_ERR;
  }
  return IBV_EVENT_DEVICE_FATAL;
}

}  // namespace

ProcessNic::ProcessNic(const Settings& settings) : adapter_(settings) {
  nic::bear_gone_pages();
  adapter_.listen([this](nic::Nic& nic) { hear(nic); });
  if (variable("SIDELATCH_SOFTNIC_EXPLAIN") != nullptr) {
    adapter_.call([](nic::Nic& nic) { nic.explain(true); });
  }
}

void ProcessNic::refuse_use() { refuse(EIO, "this NIC is another process's, from before fork()"); }

roce::MacAddress ProcessNic::resolve(const roce::Gid& gid) {
  require_usable();
  if (roce::is_group(gid)) {
    return roce::group_mac(gid);
  }
  if (const auto mac = adapter_.resolve(gid, kResolveLimit)) {
    return *mac;
  }
  refuse(ETIMEDOUT, "nobody at the wire answers to this GID");
}

void ProcessNic::leave() noexcept {
  if (farewell) {
    farewell();
  }
  adapter_.leave();
}

// Called under the lock, and noexcept: if memory for an event is missing the process ends, because a lost event would
// make it wait for ever.
void ProcessNic::hear(nic::Nic& nic) {
  if (!armed.empty()) {
    notify_armed();
  }
  if (management) {
    management(nic);
  }
  while (const auto event = nic.next_event()) {
    deliver(*event);
  }
  while (const auto sentence = nic.next_explanation()) {
    complain(*sentence);
  }
  if (adapter_.has_failed() && !failure_is_reported_) {
    report_failure();
  }
}

// Reports the event of a failed device, after which nothing of the device works.
void ProcessNic::report_failure() {
  failure_is_reported_ = true;
  ibv_async_event fatal{};
  fatal.event_type = IBV_EVENT_DEVICE_FATAL;
  for (Context* const context : contexts) {
    report(*context, fatal);
  }
}

void ProcessNic::notify_armed() {
  std::erase_if(armed, [](CompletionQueue* queue) {
    if (!queue->queue->take_notification()) {
      return false;
    }
    queue->is_armed = false;
    CompletionChannel& channel = of(*queue->channel);
    channel.waiting.push_back(queue);
    channel.counter.add();
    return true;
  });
}

void ProcessNic::deliver(const nic::Event& event) const {
  ibv_async_event report_as{};
  report_as.event_type = type_of(event.kind);
  if (event.kind == nic::Event::Kind::completion_queue_error) {
    if (CompletionQueue* const queue = find(completion_queues, event.number)) {
      report_as.element.cq = as_cq(*queue);
      report(of(*queue->context), report_as);
    }
  } else if (event.kind == nic::Event::Kind::shared_receive_limit) {
    if (SharedReceiveQueue* const queue = find(shared_receive_queues, event.number)) {
      report_as.element.srq = queue;
      report(of(*queue->context), report_as);
    }
  } else if (QueuePair* const pair = find(queue_pairs, event.number)) {
    const auto tell = [&](QueuePair& handle) {
      report_as.element.qp = &handle.qp_base;
      report(of(*handle.qp_base.context), report_as);
    };
    tell(*pair);
    for (QueuePair* const other : opened_pairs) {
      if (other->pair == pair->pair) {
        tell(*other);
      }
    }
  }
}

std::shared_ptr<ProcessNic> acquire() {
  watch_forks();
  Process& ours = process();
  const std::scoped_lock lock(ours.mutex);
  std::shared_ptr<ProcessNic> nic = ours.nic.lock();
  if (!nic) {
    nic = std::make_shared<ProcessNic>(settings_from(variable));
    ours.nic = nic;
    ours.owner = ::getpid();
  }
  if (ours.keepers > 0) {
    ours.kept = nic;
  }
  return nic;
}

void release(std::shared_ptr<ProcessNic>& nic) noexcept {
  // Under the lock, so that the next opener finds the wire without us.
  const std::scoped_lock lock(process().mutex);
  nic.reset();
}

void keep(bool begins) noexcept {
  watch_forks();
  Process& ours = process();
  const std::scoped_lock lock(ours.mutex);
  ours.keepers += begins ? 1 : -1;
  if (ours.keepers <= 0) {
    ours.keepers = 0;
    ours.kept.reset();
  }
}

}  // namespace sidelatch::softnic::verbs
