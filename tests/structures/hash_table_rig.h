// A hash table on simulated machines, and values that show whether they are whole.
#pragma once

#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/structures/hash_table.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::structures {

/// One entry per bucket and few buckets: whatever is put in makes chains.
inline HashTableOptions crowded(std::uint64_t value_bytes = 40) {
  return {.value_bytes = value_bytes, .capacity = 3, .entries_per_bucket = 1, .overflow_buckets = 40};
}

inline const fabric::sim::Profile& connectx5() {
  static const fabric::sim::Profile profile = fabric::sim::load_profile("connectx5");
  return profile;
}

/// Every word is `number`; the bytes behind the last whole word are its first bytes.
inline std::vector<std::byte> value_of(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> value(bytes);
  for (std::size_t i = 0; i < bytes; i += sizeof number) {
    std::memcpy(value.data() + i, &number, std::min(sizeof number, bytes - i));
  }
  return value;
}

inline std::uint64_t number_in(std::span<const std::byte> value) {
  std::uint64_t number = 0;
  std::memcpy(&number, value.data(), sizeof number);
  return number;
}

inline bool is_whole(std::span<const std::byte> value) {
  return std::ranges::equal(value, value_of(number_in(value), value.size()));
}

struct HashTableRig {
  HashTableRig(const sync::Scheme& scheme, const HashTableOptions& options, std::size_t memory_nodes = 1,
               const fabric::sim::SimulationOptions& simulation = {.profile = connectx5()})
      : world(simulation) {
    std::vector<fabric::RemoteSpan> spans;
    for (std::size_t i = 0; i < memory_nodes; ++i) {
      storage.push_back(&world.add_node("storage"));
      memory.push_back(
          storage.back()->allocate(HashTable::bytes_needed(scheme, options, memory_nodes), fabric::Access::remote_all));
      spans.push_back(memory.back().remote());
    }
    table.emplace(scheme, options, spans);
  }

  // Tasks left behind by an exception use objects that end before the world does.
  ~HashTableRig() { world.reactor().destroy_spawned(); }
  HashTableRig(const HashTableRig&) = delete;
  HashTableRig& operator=(const HashTableRig&) = delete;

  Client& add_client(const sync::SessionOptions& options = {}) { return add_client(options, world.options().profile); }
  Client& add_client(const sync::SessionOptions& options, const fabric::sim::Profile& profile) {
    clients.push_back(
        std::make_unique<Client>(world.add_node("client", profile), storage, table->buffer_bytes(), options));
    return *clients.back();
  }
  template <class T>
  T run(fabric::Task<T> task) {
    return world.reactor().run(std::move(task));
  }
  /// Runs until all posted requests have been executed.
  void settle() {
    for (const auto& client : clients) {
      if (client->session(0).qp().state() == fabric::QueuePair::State::ready) {
        run(client->drain());
      }
    }
    world.reactor().run_for(fabric::from_ns(1e5));
  }
  /// The result of check(), by a client that gives up when it has to wait.
  HashTableReport check() {
    settle();
    sync::SessionOptions options;
    options.retry = sync::Retry::backoff().within(fabric::from_ns(1e5));
    return run(table->check(add_client(options)));
  }

  std::vector<std::byte> value(std::uint64_t number) const { return value_of(number, table->options().value_bytes); }
  Outcome insert(Client& client, std::uint64_t key, std::uint64_t number) {
    const std::vector<std::byte> bytes = value(number);
    return run(table->insert(client, key, bytes));
  }
  Outcome put(Client& client, std::uint64_t key, std::uint64_t number) {
    const std::vector<std::byte> bytes = value(number);
    return run(table->put(client, key, bytes));
  }
  Outcome update(Client& client, std::uint64_t key, std::uint64_t number) {
    const std::vector<std::byte> bytes = value(number);
    return run(table->update(client, key, bytes));
  }
  Outcome remove(Client& client, std::uint64_t key) { return run(table->remove(client, key)); }
  /// The number in a key's value; nothing if the key is absent.
  std::optional<std::uint64_t> get(Client& client, std::uint64_t key) {
    std::vector<std::byte> bytes(table->options().value_bytes);
    const Outcome outcome = run(table->get(client, key, bytes));
    return outcome == Outcome::done && is_whole(bytes) ? std::optional(number_in(bytes)) : std::nullopt;
  }
  /// A number of keys, from `first` on, whose home is that bucket of memory node 0.
  [[nodiscard]] std::vector<std::uint64_t> keys_of(std::uint64_t bucket, std::size_t count,
                                                   std::uint64_t first = 0) const {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = first; keys.size() < count; ++key) {
      if (table->place_of(key) == HashTable::Place{0, bucket}) {
        keys.push_back(key);
      }
    }
    return keys;
  }

  // Bytes at memory node 0, for schemes whose payload is contiguous.
  template <class Number>
  [[nodiscard]] Number at(std::uint64_t bucket, std::uint64_t offset) const {
    Number number = 0;
    std::memcpy(&number, memory[0].bytes().data() + kSuperblockBytes + table->layout().payload(bucket) + offset,
                sizeof number);
    return number;
  }
  template <class Number>
  void plant(std::uint64_t bucket, std::uint64_t offset, Number number) {
    std::memcpy(memory[0].bytes().data() + kSuperblockBytes + table->layout().payload(bucket) + offset, &number,
                sizeof number);
  }
  [[nodiscard]] std::uint64_t latch_word(std::uint64_t bucket) const {
    std::uint64_t word = 0;
    std::memcpy(&word, memory[0].bytes().data() + kSuperblockBytes + table->layout().latch(bucket), sizeof word);
    return word;
  }
  void set_latch_word(std::uint64_t bucket, std::uint64_t word) {
    std::memcpy(memory[0].bytes().data() + kSuperblockBytes + table->layout().latch(bucket), &word, sizeof word);
  }

  fabric::sim::Simulation world;
  std::vector<fabric::Node*> storage;
  std::vector<fabric::MemoryRegion> memory;
  std::optional<HashTable> table;
  std::vector<std::unique_ptr<Client>> clients;
};

/// Schemes that keep their promises on NICs as measured.
inline std::vector<checker::SchemeEntry> sound_schemes() {
  std::vector<checker::SchemeEntry> chosen;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    if (!entry.known_broken() && entry.kind != checker::Kind::model_only && entry.kind != checker::Kind::queue) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

inline std::string name_of_scheme(const auto& info) {
  std::string text(info.param.name);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

}  // namespace sidelatch::structures
