// The basis of programs written by hand: a memory node of a few lines, and clients with a queue pair and buffers.
#pragma once

#include <sidelatch/explore/world.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/task.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace sidelatch::explore {

inline std::uint64_t word_in(std::span<const std::byte> bytes, std::uint64_t offset = 0) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

struct Store {
  explicit Store(World& the_world, std::uint64_t lines = 4, unsigned nics = 1, std::string_view name = "memory")
      : world(&the_world),
        node(&the_world.add_node(name, nics)),
        memory(node->allocate(lines * 64, fabric::Access::remote_all)) {}

  /// Whole lines.
  [[nodiscard]] fabric::RemoteSpan lines(std::uint64_t first, std::uint64_t count) const {
    return memory.remote(first * 64, count * 64);
  }
  /// The first word of a line.
  [[nodiscard]] fabric::RemoteSpan word(std::uint64_t line) const { return memory.remote(line * 64, 8); }
  /// The same for the node's own CPU.
  [[nodiscard]] fabric::LocalSpan own(std::uint64_t line) const { return memory.local(line * 64, 8); }
  [[nodiscard]] std::uint64_t value(std::uint64_t line) const { return word_in(memory.bytes(), line * 64); }

  World* world;
  fabric::Node* node;
  fabric::MemoryRegion memory;
};

struct Client {
  Client(World& the_world, Store& store, std::string_view name, unsigned nic = 0)
      : world(&the_world),
        node(&the_world.add_node(name)),
        buffers(node->allocate(1024, fabric::Access::local_write)),
        qp(the_world.connect(*node, *store.node, nic, {})) {}

  [[nodiscard]] fabric::LocalSpan lines(std::uint64_t first, std::uint64_t count) const {
    return buffers.local(first * 64, count * 64);
  }
  [[nodiscard]] fabric::LocalSpan word(std::uint64_t line) const { return buffers.local(line * 64, 8); }
  [[nodiscard]] std::uint64_t value(std::uint64_t line) const { return word_in(buffers.bytes(), line * 64); }
  void set(std::uint64_t line, std::uint64_t word) {
    std::memcpy(buffers.bytes().data() + line * 64, &word, sizeof word);
  }

  World* world;
  fabric::Node* node;
  fabric::MemoryRegion buffers;
  std::unique_ptr<fabric::QueuePair> qp;
};

/// The whole of a client that adds 1 to the first word of line 0.
inline fabric::Task<void> add_one(Client* client, Store* store) { co_await client->qp->fetch_add(store->word(0), 1); }

/// Takes the latch in the first word of line 0, and tries until nobody else holds it.
inline fabric::Task<void> take_latch(Client* client, Store* store, std::uint64_t own) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    const std::uint64_t old = co_await client->qp->compare_swap(store->word(0), 0, own);
    if (old == 0) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}

}  // namespace sidelatch::explore
