// A memory node with a few objects, and clients to synchronize.
#pragma once

#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/latch_peers.h>
#include <sidelatch/sync/scheme.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace sidelatch::sync {

class Store {
 public:
  explicit Store(const Scheme& the_scheme, std::uint64_t payload_bytes = 200, std::uint64_t count = 4)
      : Store(the_scheme, payload_bytes, count, the_scheme.default_layout()) {}
  Store(const Scheme& the_scheme, std::uint64_t payload_bytes, std::uint64_t count, LayoutKind kind,
        const fabric::sim::SimulationOptions& options = {.profile = fabric::sim::load_profile("connectx5")})
      : scheme(the_scheme),
        world(options),
        layout(scheme.shape(payload_bytes, kind), kind, count),
        memory(storage.allocate(layout.total_bytes(), fabric::Access::remote_all)),
        objects(layout, memory.remote()) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  /// Tasks that were spawned use the queue pairs.
  ~Store() { world.reactor().destroy_spawned(); }

  /// A client of its own with its own queue pair.
  Session& add_session(const SessionOptions& options = {}) { return add_session(options, world.options().profile); }
  Session& add_session(const SessionOptions& options, const fabric::sim::Profile& profile) {
    return add_session(options, profile, [](fabric::Node&, const SessionOptions& wanted) { return wanted; });
  }
  /// `complete`: what the options need of the client's node.
  template <class Complete>
  Session& add_session(const SessionOptions& wanted, const fabric::sim::Profile& profile, Complete complete) {
    fabric::Node& node = world.add_node("client", profile);
    queue_pairs.push_back(node.connect(storage));
    SessionOptions options = complete(node, wanted);
    if (scheme.needs_peers()) {
      auto made = std::make_unique<LatchPeers>(node, static_cast<std::uint16_t>(peers.size() + 1));
      for (const auto& other : peers) {
        LatchPeers::connect(*other, *made);
      }
      options.peers = made.get();
      peers.push_back(std::move(made));
    }
    sessions.push_back(std::make_unique<Session>(*queue_pairs.back(), buffer_bytes(layout.shape()), options));
    return *sessions.back();
  }
  template <class T>
  T run(fabric::Task<T> task) {
    return world.reactor().run(std::move(task));
  }
  /// Runs until all posted requests have been executed. Throws the errors of failed queue pairs.
  void settle() {
    for (auto& queue_pair : queue_pairs) {
      run(drain(*queue_pair));
    }
    place();
  }
  /// The same, but ignores failed queue pairs, because some may have been revoked.
  void settle_survivors() {
    for (auto& queue_pair : queue_pairs) {
      if (queue_pair->state() == fabric::QueuePair::State::ready) {
        run(drain(*queue_pair));
      }
    }
    place();
  }
  [[nodiscard]] std::uint64_t word_at(std::uint64_t offset) const {
    std::uint64_t word = 0;
    std::memcpy(&word, memory.bytes().data() + offset, sizeof word);
    return word;
  }
  void set_word(std::uint64_t offset, std::uint64_t word) {
    std::memcpy(memory.bytes().data() + offset, &word, sizeof word);
  }
  [[nodiscard]] std::uint64_t latch_word(std::uint64_t object) const { return word_at(layout.latch(object)); }

  const Scheme& scheme;
  fabric::sim::Simulation world;
  fabric::Node& storage = world.add_node("storage");
  Layout layout;
  fabric::MemoryRegion memory;
  ObjectArray objects;
  std::vector<std::unique_ptr<fabric::QueuePair>> queue_pairs;
  std::vector<std::unique_ptr<LatchPeers>> peers;  // of the sessions, if the scheme needs them
  std::vector<std::unique_ptr<Session>> sessions;

 private:
  /// Waits for placement: a WRITE may complete before it is placed.
  void place() { world.reactor().run_for(fabric::from_ns(1e5)); }
  static fabric::Task<void> drain(fabric::QueuePair& qp) { co_await qp.drain(); }
};

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint8_t first) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(first + i * 7);
  }
  return out;
}

/// Sets every word of a payload to `number`, so that a mixture of two payloads is not uniform().
inline void fill(std::span<std::byte> payload, std::uint64_t number) {
  for (std::size_t i = 0; i < payload.size(); i += sizeof number) {
    std::memcpy(payload.data() + i, &number, sizeof number);
  }
}

inline std::uint64_t first_word(std::span<const std::byte> payload) {
  std::uint64_t word = 0;
  std::memcpy(&word, payload.data(), sizeof word);
  return word;
}

inline bool uniform(std::span<const std::byte> payload) {
  return std::memcmp(payload.data(), payload.data() + sizeof(std::uint64_t), payload.size() - sizeof(std::uint64_t)) ==
         0;
}

/// Writes `payload` to an object as a whole update.
inline fabric::Task<bool> put(const Scheme& scheme, Session& session, Object object, std::vector<std::byte> payload) {
  const bool done = co_await scheme.update(session, object, [&payload](std::span<std::byte> into) {
    std::memcpy(into.data(), payload.data(), into.size());
  });
  co_return done;
}

}  // namespace sidelatch::sync
