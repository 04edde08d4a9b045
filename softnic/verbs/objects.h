// The objects behind the pointers that libibverbs gives out: each begins with the public struct of verbs.h, so a
// program's pointer also points to our object.
//
//   QueuePair& pair = of(*ibv_qp_pointer);
//
// Fields that verbs.h leaves to the library (mutex, cond, the counts of acknowledged events) are used as in libibverbs:
// an object is destroyed only after all its delivered events have been acknowledged.
//
// Thread-safety: as usual for verbs; fields marked "under the lock" are used under the NIC's lock.
#pragma once

#include "event_counter.h"
#include "process_nic.h"

#include "common/file_descriptor.h"
#include "softnic/nic/nic.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sidelatch::softnic::verbs {

struct MemoryRegion;

/// One opening of the device. A context shares it with those that were imported from it. Objects of one opening do not
/// know those of another, as in the kernel, where an object's handle means something in one open file only. They end
/// when the last of its contexts is closed.
struct Opening {};

struct Context : verbs_context {
  std::shared_ptr<ProcessNic> nic;
  std::shared_ptr<const Opening> opening = std::make_shared<Opening>();
  EventCounter counter;     ///< of `events`
  FileDescriptor imported;  ///< by which the device was imported
  // Under the lock.
  bool is_closed = false;  ///< it stays for others of its opening
  std::deque<ibv_async_event> events;
  std::unordered_map<std::uint32_t, const MemoryRegion*> regions;  ///< by their keys
  std::unordered_set<nic::Domain> domains;
  std::unordered_set<std::uint32_t> windows;           ///< keys that they had at first
  std::unordered_multiset<std::uint32_t> xrc_domains;  ///< one entry for each handle
};

struct ThreadDomain : ibv_td {
  std::atomic<std::uint32_t> users = 0;
};

struct ProtectionDomain : ibv_pd {
  ProcessNic* nic = nullptr;
  nic::Domain domain = 0;
  /// The domain for which this parent domain stands.
  ProtectionDomain* original = nullptr;
  ThreadDomain* thread_domain = nullptr;
  /// The number of address handles, parent domains and objects in memory of its own; the NIC knows the other users of a
  /// domain. An address handle keeps the counter: it may outlive an imported name of the domain.
  std::shared_ptr<std::atomic<std::uint32_t>> users = std::make_shared<std::atomic<std::uint32_t>>(0);
  /// A parent domain's own allocator, or nullptr (placement.h).
  decltype(ibv_parent_domain_init_attr::alloc) alloc = nullptr;
  decltype(ibv_parent_domain_init_attr::free) free = nullptr;
  void* user = nullptr;
};

struct MemoryRegion : ibv_mr {
  nic::Region region;
};

struct MemoryWindow : ibv_mw {
  ProcessNic* nic = nullptr;
  nic::Domain domain = 0;
};

/// A handle of an XRC domain. All objects that were made through it hold it.
struct XrcHandle {};

struct XrcDomain : ibv_xrcd {
  ProcessNic* nic = nullptr;
  std::uint32_t domain = 0;
  std::shared_ptr<XrcHandle> handle = std::make_shared<XrcHandle>();
};

struct AddressHandle : ibv_ah {
  std::shared_ptr<std::atomic<std::uint32_t>> domain_users;
  nic::Domain domain = 0;
  nic::AddressVector to;
};

struct CompletionChannel : ibv_comp_channel {
  ProcessNic* nic = nullptr;
  EventCounter counter;                  ///< of `waiting`
  std::deque<CompletionQueue*> waiting;  ///< under the lock
};

struct CompletionQueue : ibv_cq_ex {
  ProcessNic* nic = nullptr;
  nic::CompletionQueue* queue = nullptr;
  ProtectionDomain* placed_by = nullptr;  ///< whose memory it is in (placement.h)
  // Events delivered; under the lock.
  std::uint32_t notified = 0;
  std::uint32_t reported = 0;
  bool is_armed = false;  ///< the queue is in ProcessNic::armed; under the lock
  // The polling functions of ibv_cq_ex: one thread holds the mutex from start_poll to end_poll.
  std::mutex polling;
  bool is_single_threaded = false;
  nic::Completion current;
};

struct SharedReceiveQueue : ibv_srq {
  ProcessNic* nic = nullptr;
  nic::ReceiveQueue* queue = nullptr;
  ProtectionDomain* placed_by = nullptr;  ///< whose memory it is in (placement.h)
  bool is_xrc = false;
  std::shared_ptr<XrcHandle> xrc_handle;
  std::uint32_t reported = 0;  ///< under the lock
};

/// The requests built since ibv_wr_start(). It keeps its capacity, so nothing is allocated in steady state.
struct WorkBuilder {
  struct Draft {
    nic::SendRequest request;
    std::size_t first = 0;  ///< in `sges` or, inlined, in `inlined`
    std::size_t count = 0;
    bool has_address = false;  ///< UD: it was set
  };
  std::mutex mutex;  ///< from start to complete or abort
  std::vector<Draft> drafts;
  std::vector<nic::Sge> sges;
  std::vector<std::byte> inlined;
  int error = 0;
};

struct QueuePair : ibv_qp_ex {
  ProcessNic* nic = nullptr;
  nic::QueuePair* pair = nullptr;
  ProtectionDomain* placed_by = nullptr;  ///< whose memory it is in (placement.h)
  bool has_builder = false;               ///< made with send_ops_flags
  std::uint64_t operations = 0;           ///< the send_ops_flags
  std::uint32_t reported = 0;             ///< under the lock
  std::shared_ptr<XrcHandle> xrc_handle;  ///< of an XRC target
  WorkBuilder builder;
};

[[nodiscard]] inline Context& of(ibv_context& context) noexcept {
  return static_cast<Context&>(*verbs_get_ctx(&context));
}
[[nodiscard]] inline ProtectionDomain& of(ibv_pd& domain) noexcept { return static_cast<ProtectionDomain&>(domain); }
[[nodiscard]] inline ThreadDomain& of(ibv_td& domain) noexcept { return static_cast<ThreadDomain&>(domain); }
[[nodiscard]] inline MemoryRegion& of(ibv_mr& region) noexcept { return static_cast<MemoryRegion&>(region); }
[[nodiscard]] inline MemoryWindow& of(ibv_mw& window) noexcept { return static_cast<MemoryWindow&>(window); }
[[nodiscard]] inline XrcDomain& of(ibv_xrcd& domain) noexcept { return static_cast<XrcDomain&>(domain); }
[[nodiscard]] inline AddressHandle& of(ibv_ah& handle) noexcept { return static_cast<AddressHandle&>(handle); }
[[nodiscard]] inline CompletionChannel& of(ibv_comp_channel& channel) noexcept {
  return static_cast<CompletionChannel&>(channel);
}
[[nodiscard]] inline CompletionQueue& of(ibv_cq_ex& queue) noexcept { return static_cast<CompletionQueue&>(queue); }
// The first fields of ibv_cq_ex are those of ibv_cq (verbs.h, ibv_cq_ex_to_cq()).
[[nodiscard]] inline CompletionQueue& of(ibv_cq& queue) noexcept { return of(reinterpret_cast<ibv_cq_ex&>(queue)); }
[[nodiscard]] inline SharedReceiveQueue& of(ibv_srq& queue) noexcept { return static_cast<SharedReceiveQueue&>(queue); }
[[nodiscard]] inline QueuePair& of(ibv_qp_ex& pair) noexcept { return static_cast<QueuePair&>(pair); }
// An ibv_qp is the first member of ibv_qp_ex.
[[nodiscard]] inline QueuePair& of(ibv_qp& pair) noexcept { return of(reinterpret_cast<ibv_qp_ex&>(pair)); }

[[nodiscard]] inline ibv_cq* as_cq(CompletionQueue& queue) noexcept { return ibv_cq_ex_to_cq(&queue); }

/// Waits until `count`, which acknowledgements increase, has reached `wanted`.
template <class Object>
void wait_for_acknowledgements(Object& object, const std::uint32_t& count, std::uint32_t wanted) noexcept {
  pthread_mutex_lock(&object.mutex);
  while (count != wanted) {
    pthread_cond_wait(&object.cond, &object.mutex);
  }
  pthread_mutex_unlock(&object.mutex);
}
template <class Object>
void acknowledge(Object& object, std::uint32_t& count, std::uint32_t events) noexcept {
  pthread_mutex_lock(&object.mutex);
  count += events;
  pthread_cond_signal(&object.cond);
  pthread_mutex_unlock(&object.mutex);
}
template <class Object>
void init_acknowledgements(Object& object) noexcept {
  pthread_mutex_init(&object.mutex, nullptr);
  pthread_cond_init(&object.cond, nullptr);
}
template <class Object>
void end_acknowledgements(Object& object) noexcept {
  pthread_cond_destroy(&object.cond);
  pthread_mutex_destroy(&object.mutex);
}

[[nodiscard]] bool is_of_queue_pair(ibv_event_type type) noexcept;
[[nodiscard]] inline bool is_of(const ibv_async_event& event, const ibv_qp& pair) noexcept {
  return is_of_queue_pair(event.event_type) && event.element.qp == &pair;
}
/// Removes the events of an object that ends. Call it under the lock.
template <class IsIts>
void forget_events(Context& context, IsIts is_its) {
  for (auto forgotten = std::erase_if(context.events, is_its); forgotten > 0; --forgotten) {
    context.counter.take_back();
  }
}

}  // namespace sidelatch::softnic::verbs
