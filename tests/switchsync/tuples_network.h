// Clients and a memory node with tuples, behind a switch that runs p4/switch_optimistic.p4.
#pragma once

#include "switched_nics.h"

#include <sidelatch/switchsync/optimistic_switch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  /// A queue pair of client i to the memory node, through the switch. A client has one at a time.
  softnic::nic::QueuePair& connect(std::size_t i, const softnic::nic::Link& link = {});
  /// The client's number at the switch.
  [[nodiscard]] OptimisticSwitch::ConnectionId connection_of(std::size_t i) const { return *ends_.at(i).id; }
  /// The client's process ends: its NIC forgets the queue pair.
  void kill(std::size_t i);
  /// The memory node ends the client's queue pair.
  void end(std::size_t i);
  /// The switch forgets everything. All connections end, the versions are read back from the tuples, or are not.
  void restart(bool reads_back);
  /// A second switch takes the place of this one, and passes nothing of the clients. When this returns, the memory node
  /// has READ of itself, if it `drains`.
  void fail_over(bool drains = true);
  /// Then: all queue pairs end. Versions are read back; returns what the tuples had.
  std::vector<std::uint64_t> recover_versions();
  [[nodiscard]] OptimisticSwitch& control() { return *control_; }
  [[nodiscard]] std::uint64_t version(std::uint32_t tuple) { return control_->version(tuple); }
  [[nodiscard]] std::optional<OptimisticSwitch::ConnectionId> holder(std::uint32_t tuple) {
    return control_->holder(tuple);
  }
  [[nodiscard]] const TuplesOptions& options() const { return options_; }

 private:
  struct Ends {
    softnic::nic::QueuePair* client = nullptr;
    softnic::nic::QueuePair* memory = nullptr;
    std::optional<OptimisticSwitch::ConnectionId> id{};
  };
  void set_up(bool is_new);
  void end_all();
  TuplesOptions options_;
  std::vector<Ends> ends_;  // by client
  std::optional<OptimisticSwitch> control_;
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
