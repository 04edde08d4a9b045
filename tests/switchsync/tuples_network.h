// Clients and a memory node with tuples, behind a switch that runs p4/switch_optimistic.p4.
#pragma once

#include "switched_nics.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::switchsync {

struct TuplesOptions {
  std::size_t clients = 1;
  softnic::nic::WireFaults faults{};
  std::uint64_t seed = 1;
  /// The memory node places and samples lines as the memory model's preset `observed` allows, else all at once.
  bool defers = false;
  std::uint64_t tuple_bytes = 192;
  std::uint64_t tuples = 4;
};

class TuplesNetwork : public SwitchedNics {
 public:
  static constexpr std::uint64_t kSlotBytes = 256;

  TuplesNetwork(std::shared_ptr<const p4::Program> program, const TuplesOptions& options);

  [[nodiscard]] softnic::nic::Host& memory_node() { return host(options_.clients); }
  /// A queue pair of client i to the memory node, and the number of its connection at the switch.
  softnic::nic::QueuePair& connect(std::size_t i, const softnic::nic::Link& link = {});
  [[nodiscard]] static std::uint32_t connection_of(std::size_t i) { return static_cast<std::uint32_t>(i * 5 + 1); }
  [[nodiscard]] std::uint64_t version(std::uint64_t tuple) { return reg("versions", tuple); }
  /// The connection that holds the tuple's latch, plus 1; 0: none.
  [[nodiscard]] std::uint64_t holder(std::uint64_t tuple) { return reg("holders", tuple); }
  [[nodiscard]] const TuplesOptions& options() const { return options_; }

 private:
  [[nodiscard]] std::uint64_t reg(const std::string& name, std::uint64_t i) {
    return static_cast<std::uint64_t>(device().state().reg(name).read(i));
  }
  TuplesOptions options_;
};

/// A client's queue pair. It reads tuples to the beginning of its memory, and writes them from kOut on.
struct TupleClient {
  static constexpr std::size_t kOut = 4096;
  static constexpr std::size_t kWord = 8192;
  TuplesNetwork* network;
  std::size_t number;
  softnic::nic::QueuePair* pair;
  std::uint64_t posted = 0;

  [[nodiscard]] softnic::nic::Host& host() const { return network->host(number); }
  /// The first word of the tuple that was read, or the word of the last CAS or READ of a word.
  [[nodiscard]] std::uint64_t tuple_word() const { return host().word(0); }
  [[nodiscard]] std::uint64_t word() const { return host().word(kWord); }
  std::uint64_t post(softnic::nic::SendRequest request, std::uint64_t tuple, std::size_t local, std::uint64_t bytes,
                     std::uint64_t offset = 0);
  std::uint64_t read(std::uint64_t tuple);
  std::uint64_t read_word(std::uint64_t tuple);
  std::uint64_t swap(std::uint64_t tuple, std::uint64_t compare, std::uint64_t value);
  /// All words but the first one are `content`.
  std::uint64_t write(std::uint64_t tuple, std::uint64_t content);
  /// Runs the network; the outcome of what was posted, one after the other.
  [[nodiscard]] std::vector<softnic::nic::CompletionStatus> outcomes() const;
};

}  // namespace sidelatch::switchsync
