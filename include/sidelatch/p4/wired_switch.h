// A switch on real wires: a p4::Switch whose ports are shared memory, UNIX sockets, interfaces or captures.
//
//   const auto program = p4::compile_file("l2.p4");
//   p4::WiredSwitch device(program, {.ports = {p4::parse_port("1=shm:left"), p4::parse_port("2=shm:right")}});
//   apply(read_control(text, "control.json", program->info(), {1, 2}), device.device());          // control.h
//   while (device.serve(std::chrono::seconds(1))) { print(device.counters(0)); }
//
// One thread moves the packets. It spins for some microseconds when there are none, and then sleeps in poll(2). Once it
// is warm it allocates nothing per packet, but for frames that a full UNIX socket or an injected fault holds back.
//
// A port that has no room is paused: its packets wait in its queue, and what finds the queue full is dropped.
//
// If all ports are captures there is no clock: packets arrive in the order of their times, and time is what the
// captures say, from the first packet on. So the same captures give the same result.
//
// Thread-safety: one thread drives it; interrupt() may come from any thread, and from a signal handler.
#pragma once

#include <sidelatch/p4/switch.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::p4 {

struct PortOptions {
  std::uint16_t number = 0;
  std::string wire;
};

/// The forms of a port, for help and errors.
inline constexpr const char* kPortForms =
    "NUMBER=shm:NAME, NUMBER=link:OURS,THEIRS[,mtu=BYTES], NUMBER=interface:NAME or NUMBER=pcap:[IN][,OUT]";

/// "3=shm:left". Throws std::invalid_argument; whether the wire is one turns out when it is opened.
[[nodiscard]] PortOptions parse_port(const std::string& text);

/// Injected faults: probabilities, from 0 to 1, of what happens to a packet as it leaves.
struct FaultRates {
  double loss = 0;
  double duplication = 0;
  double reordering = 0;  ///< some later packets overtake it
  std::uint64_t seed = 1;
};

struct WiredSwitchOptions {
  /// At least one. The switch has as many ports as their highest number says.
  std::vector<PortOptions> ports;
  /// Bytes that may wait for one port; 0: any number.
  std::size_t queue_bytes = std::size_t{4} << 20;
  /// As SwitchOptions.
  std::size_t ecn_bytes = 0;
  std::uint64_t seed = 1;
  bool icrc = true;
  FaultRates faults{};
  /// Every packet is written to this file as it arrives and again as it leaves, before injected faults. Empty: none.
  std::filesystem::path capture{};
  /// Files that neither this capture nor that of a port may overwrite, beside those that ports read.
  std::vector<std::filesystem::path> inputs{};
};

struct PortCounters {
  std::uint64_t packets_in = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t packets_out = 0;  ///< before injected faults
  std::uint64_t bytes_out = 0;
  std::uint64_t dropped = 0;  ///< left the pipeline, but too long or too short for the wire, or nobody was there
  std::uint64_t lost = 0;     ///< injected: this and those below
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
};

class WiredSwitch {
 public:
  /// Opens all wires. Throws std::invalid_argument for options that mean nothing, and a std::runtime_error that says
  /// what to do for a wire that cannot be opened.
  WiredSwitch(std::shared_ptr<const Program> program, const WiredSwitchOptions& options);
  WiredSwitch(const WiredSwitch&) = delete;
  WiredSwitch& operator=(const WiredSwitch&) = delete;
  ~WiredSwitch();

  [[nodiscard]] Switch& device() noexcept { return *device_; }
  [[nodiscard]] const std::vector<PortOptions>& ports() const noexcept { return ports_; }

  /// Forwards until the time has passed or interrupt() is called. False: all ports are captures, and they have been
  /// read. Throws a std::runtime_error if a wire fails.
  bool serve(std::chrono::nanoseconds at_most);
  /// Ends the current serve(), or the next one. Async-signal-safe.
  void interrupt() noexcept;

  /// Of ports()[i].
  [[nodiscard]] PortCounters counters(std::size_t i) const;
  /// As Switch::drops(); Drop::no_such_port also counts packets to numbers without a port.
  [[nodiscard]] std::uint64_t drops(Drop reason) const;
  /// How often serve() slept in the kernel.
  [[nodiscard]] std::uint64_t sleeps() const noexcept { return sleeps_; }

 private:
  class Port;

  bool forward();
  bool replay();
  bool step_all();
  void send(const Departure& departure);
  void sleep(std::chrono::nanoseconds at_most);
  void capture(std::span<const std::byte> frame);

  std::vector<PortOptions> ports_;
  std::unique_ptr<Switch> device_;
  std::vector<std::unique_ptr<Port>> wires_;  // as ports_
  std::vector<Port*> by_number_;
  struct Idle;
  std::unique_ptr<Idle> idle_;
  bool only_captures_ = true;
  std::uint64_t unplugged_ = 0;
  std::uint64_t sleeps_ = 0;
};

}  // namespace sidelatch::p4
