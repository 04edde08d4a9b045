// NICs in one thread, each at a port of a switch that runs a P4 program. The links lose, repeat and delay frames
// according to a seed.
#pragma once

#include "tests/softnic/nic/wired_nics.h"

#include <sidelatch/p4/switch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace sidelatch::switchsync {

/// What clients use of a switch that hosts words.
struct SwitchEnd {
  roce::MacAddress mac{2, 0, 0, 0, 0, 0xfe};
  roce::Ipv4Address ip{10, 0, 0, 254};
  std::uint32_t key = 0x5eed;
  std::uint64_t address = 0x1000'0000;  ///< of the first word
  std::uint64_t words = 512;
};

class SwitchedNics {
 public:
  /// Host i is at port i; their number ends their addresses.
  SwitchedNics(std::shared_ptr<const p4::Program> program, std::size_t hosts, softnic::nic::WireFaults faults = {},
               std::uint64_t seed = 1);

  [[nodiscard]] softnic::nic::Host& host(std::size_t i) { return *hosts_.at(i); }
  [[nodiscard]] p4::Switch& device() { return switch_; }
  [[nodiscard]] const SwitchEnd& end() const { return end_; }
  /// A queue pair of host i whose other end is the switch, with this index there.
  softnic::nic::QueuePair& connect(std::size_t i, std::uint32_t index, const softnic::nic::Link& link = {});
  [[nodiscard]] std::uint64_t word(std::uint64_t i) { return static_cast<std::uint64_t>(words().read(i)); }
  [[nodiscard]] p4::RegisterState& words() { return switch_.state().reg("Serve.words"); }

  /// Runs until nothing happens any more, or `done` returns true.
  void run(const std::function<bool()>& done = {});
  /// A frame arrives at the switch from host i, and the frames that leave for that host are returned.
  std::vector<std::vector<std::byte>> exchange(std::size_t i, std::span<const std::byte> frame);
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  static constexpr std::size_t kSwitch = 999;
  struct Flight {
    softnic::nic::Time at;
    std::uint64_t order;
    std::size_t from;
    std::size_t to;
    std::vector<std::byte> frame;
    bool operator>(const Flight& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  void pull();
  void send(std::size_t from, std::size_t to, std::vector<std::byte> frame);
  void land();
  void pass_on();
  [[nodiscard]] bool chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }

  SwitchEnd end_;
  std::vector<std::unique_ptr<softnic::nic::Host>> hosts_;
  p4::Switch switch_;
  softnic::nic::WireFaults faults_;
  std::mt19937_64 random_;
  std::vector<Flight> flying_;  // a heap
  std::uint64_t order_ = 0;
  std::uint64_t lost_ = 0;
  softnic::nic::Time now_ = 1000;
};

}  // namespace sidelatch::switchsync
