#include <sidelatch/fabric/node.h>

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace sidelatch::fabric {

Node::Node(std::string name) : name_(std::move(name)) {}

Node::~Node() { release_memory(); }

std::byte* Node::obtain_memory(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(
        fmt::format("cannot map {} bytes of memory for a region: {}", bytes, std::strerror(errno)));
  }
  return static_cast<std::byte*>(memory);
}

void Node::return_memory(std::byte* memory, std::uint64_t bytes) noexcept { ::munmap(memory, bytes); }

void Node::release_memory() noexcept {
  for (Registration& registration : registrations_) {
    if (registration.data != nullptr) {
      region_ended(registration);
    }
    if (registration.owned && registration.data != nullptr) {
      return_memory(registration.data, registration.length);
    }
  }
  registrations_.clear();
  dying_.clear();
}

// A registration is copied whole. Padding would carry along what was on the stack, and the explorer, which compares the
// bytes of such objects, would take equal states for different ones.
static_assert(std::has_unique_object_representations_v<Node::Registration> && sizeof(Node::Registration) == 64);

MemoryRegion Node::allocate(std::uint64_t bytes, Access access) {
  if (bytes == 0) {
    throw std::invalid_argument("a region of 0 bytes was asked for: it must have at least 1");
  }
  collect_garbage();
  make_slot();  // before there is memory that nobody would give back
  Registration registration;
  registration.data = obtain_memory(bytes);
  registration.length = bytes;
  registration.access = access;
  registration.owned = true;
  return add(registration);
}

MemoryRegion Node::register_memory(std::span<std::byte> memory, Access access) {
  if (memory.empty()) {
    throw std::invalid_argument("a region of 0 bytes was asked for: it must have at least 1");
  }
  if (memory.data() == nullptr) {
    throw std::invalid_argument(fmt::format("a region of {} bytes at a null pointer was asked for", memory.size()));
  }
  collect_garbage();
  make_slot();
  Registration registration;
  registration.data = memory.data();
  registration.length = memory.size();
  registration.access = access;
  return add(registration);
}

void Node::make_slot() {
  constexpr std::uint32_t kMostRegions = 1U << (32 - kGenerationBits);
  if (!free_slots_.empty()) {
    return;
  }
  if (registrations_.size() == kMostRegions) {
    throw std::length_error(fmt::format("node {} has {} regions already: deregister some", name_, kMostRegions));
  }
  registrations_.emplace_back();
  free_slots_.push_back(static_cast<std::uint32_t>(registrations_.size() - 1));
}

MemoryRegion Node::add(Registration registration) {
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Registration& entry = registrations_[slot];
  const std::uint32_t generation = entry.generation == kGenerationMask ? 1 : entry.generation + 1;
  entry = registration;
  entry.generation = generation;
  const LKey key{(slot << kGenerationBits) | generation};
  entry.live_key = entry.nic_lkey = key.value;
  entry.rkey = RKey{key.value};
  try {
    place_region(entry);
  } catch (...) {
    if (entry.owned) {
      return_memory(entry.data, entry.length);
    }
    entry.data = nullptr;
    entry.live_key = 0;
    free_slots_.push_back(slot);
    throw;
  }

  MemoryRegion region;
  region.node_ = this;
  region.data_ = entry.data;
  region.length_ = entry.length;
  region.address_ = entry.address;
  region.access_ = entry.access;
  region.lkey_ = key;
  region.rkey_ = entry.rkey;
  return region;
}

Cpu& Node::cpu() {
  if (cpu_ == nullptr) {
    cpu_ = make_cpu();
  }
  return *cpu_;
}

std::unique_ptr<Cpu> Node::make_cpu() {
  throw std::logic_error(fmt::format(
      "cpu(): node {} is in another process, and the CPU there is not this program's: use a node of this process",
      name_));
}

bool Node::in_use(LKey key) const {
  return (cpu_ != nullptr && cpu_->uses(key)) ||
         std::ranges::any_of(queue_pairs_, [&](const QueuePair* qp) { return qp->uses(key); });
}

bool Node::remove(LKey key, bool even_if_busy) {
  const bool busy = in_use(key);
  if (busy) {
    for (const QueuePair* qp : queue_pairs_) {
      if (qp->uses(key)) {
        qp->reactor().progress_is_read(qp, true);  // had its requests completed, the region would not be busy
      }
    }
  }
  const std::uint32_t slot = key.value >> kGenerationBits;
  Registration& entry = registrations_[slot];
  if (busy && !even_if_busy) {
    throw FabricError(
        Status::busy,
        fmt::format("region {:#x} of {} bytes on node {} has work requests in flight, or a task waits in it", key.value,
                    entry.length, name_));
  }
  if (busy && !entry.owned) {
    // The owner of these bytes is about to reuse them, but the NIC will still write to them: the process must end.
    fmt::print(stderr,
               "sidelatch: region {:#x} of {} bytes on node {} was destroyed while work requests use memory that the "
               "caller owns; wait for their completions (co_await qp.drain()) before it goes. Aborting.\n",
               key.value, entry.length, name_);
    std::abort();
  }
  entry.live_key = 0;
  region_removed(entry, busy);
  if (busy) {
    dying_.push_back(slot);
    return true;
  }
  region_ended(entry);
  if (entry.owned) {
    return_memory(entry.data, entry.length);
  }
  entry.data = nullptr;
  free_slots_.push_back(slot);
  return true;
}

void Node::collect_garbage() {
  end_unused();
  std::erase_if(dying_, [&](std::uint32_t dying) {
    if ((dying & kUnused) == 0) {
      return false;
    }
    const std::uint32_t slot = dying & ~kUnused;
    Registration& entry = registrations_[slot];
    return_memory(entry.data, entry.length);
    entry.data = nullptr;
    free_slots_.push_back(slot);
    return true;
  });
}

void Node::end_unused() {
  for (std::uint32_t& dying : dying_) {
    if ((dying & kUnused) == 0 && !in_use(LKey{(dying << kGenerationBits) | registrations_[dying].generation})) {
      region_ended(registrations_[dying]);
      dying |= kUnused;
    }
  }
}

std::unique_ptr<QueuePair> Node::connect(Node& target) { return connect(target, QueuePairOptions{}); }

std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> Node::connect_pair(
    Node& peer, const QueuePairOptions& /*options*/) {
  throw FabricError(Status::invalid_request,
                    fmt::format("connect_pair: the fabric of nodes {} and {} has no two-sided queue pairs; connect() "
                                "makes one-sided ones, and the simulator has both",
                                name(), peer.name()));
}

Task<void> Node::revoke_all_of(std::uint16_t owner) {
  throw std::logic_error(
      fmt::format("revoke_all_of({}): node {} keeps no owners of queue pairs: a memory server does "
                  "(verbs::RemoteNode), and within one process sync::RevocationService",
                  owner, name()));
  co_return;
}

std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> Node::connect_pair(Node& peer) {
  return connect_pair(peer, QueuePairOptions{});
}

}  // namespace sidelatch::fabric
