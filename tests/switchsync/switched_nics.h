// NICs in one thread, each at a port of a switch that runs a P4 program. The links lose, repeat and delay frames
// according to a seed.
#pragma once

#include "tests/softnic/nic/wired_nics.h"

#include <sidelatch/p4/switch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace sidelatch::switchsync {

/// Host i has the number i + 1.
[[nodiscard]] std::vector<std::unique_ptr<softnic::nic::Host>> make_hosts(std::size_t n);
/// 10.0.0.(i + 1)
[[nodiscard]] roce::Ipv4Address address_of_host(std::size_t i);

class SwitchedNics {
 public:
  /// Host i is at port i; their number ends their addresses.
  SwitchedNics(std::shared_ptr<const p4::Program> program, std::vector<std::unique_ptr<softnic::nic::Host>> hosts,
               softnic::nic::WireFaults faults, std::uint64_t seed, std::size_t ecn_bytes = 0);

  [[nodiscard]] softnic::nic::Host& host(std::size_t i) { return *hosts_.at(i); }
  [[nodiscard]] p4::Switch& device() { return *switch_; }
  /// Another switch in the place of this one, with the same program. What is on its way reaches that one.
  void replace_switch();

  /// Runs until nothing happens any more, or `done` returns true. With a packet generator something always happens.
  void run(const std::function<bool()>& done = {});
  /// A frame arrives at the switch from host i, and the frames that leave for that host are returned.
  std::vector<std::vector<std::byte>> exchange(std::size_t i, std::span<const std::byte> frame);
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  /// Of the frame's end that is not a host.
  static constexpr std::size_t kSwitch = 999;
  /// Sees each frame before its fate is decided, and returns how many copies of it travel; then no other fate is drawn.
  /// -1: as the faults say.
  std::function<int(std::size_t from, std::size_t to, std::span<const std::byte> frame)> on_send;
  /// A switch that has more to do than it can: after so many steps time goes on, and others arrive meanwhile.
  std::size_t steps_in_a_row = 1'000'000;
  /// Frames that travel at present.
  [[nodiscard]] std::size_t travelling() const { return flying_.size(); }
  [[nodiscard]] softnic::nic::Time now() const { return now_; }
  /// Nothing happens meanwhile.
  void pass_time(softnic::nic::Time time) {
    now_ += time;
    switch_->set_time(now_);
  }

 private:
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

  std::vector<std::unique_ptr<softnic::nic::Host>> hosts_;
  std::shared_ptr<const p4::Program> program_;
  std::size_t ecn_bytes_;
  std::optional<p4::Switch> switch_;
  softnic::nic::WireFaults faults_;
  std::mt19937_64 random_;
  std::vector<Flight> flying_;  // a heap
  std::uint64_t order_ = 0;
  std::uint64_t lost_ = 0;
  bool is_behind_ = false;
  softnic::nic::Time now_ = 1000;
};

}  // namespace sidelatch::switchsync
