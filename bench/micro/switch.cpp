// The embedded switch, over its in-process port: a packet is given to it, it runs, the packet that leaves is looked at.
// One core does everything. Each counter is the best of many short runs.
//
// - atomics: FETCH-ADDs to words at the switch (p4/switch_atomics.p4): parsed to BTH and AtomicETH, tables, registers,
// and
//   the answer with its ICRC.
// - forwarding: packets of 1 KiB by their MAC (p4/l2_l3.p4), ICRC checked and mended.
#include "measure.h"

#include "roce/packet.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <p4/l2_l3.h>
#include <p4/switch_atomics.h>

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace {

using namespace sidelatch;
using bench::micro::best_seconds;

constexpr std::uint32_t kPackets = 4096;
constexpr std::uint32_t kWords = 512;
constexpr std::uint32_t kQueuePair = 0x100;
constexpr std::uint32_t kKey = 0x5eed;
constexpr std::uint64_t kWordsAddress = 0x1000'0000;
constexpr roce::MacAddress kClientMac{2, 0, 0, 0, 0, 1};
constexpr roce::MacAddress kSwitchMac{2, 0, 0, 0, 0, 0xfe};
constexpr roce::Ipv4Address kClientIp{10, 0, 0, 1};
constexpr roce::Ipv4Address kSwitchIp{10, 0, 0, 254};

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

std::vector<std::byte> frame_of(const roce::Packet& packet) {
  std::vector<std::byte> frame(2048);
  const auto built = roce::build(packet, frame);
  require(std::holds_alternative<std::size_t>(built));
  frame.resize(std::get<std::size_t>(built));
  frame.shrink_to_fit();
  return frame;
}

roce::Packet to_switch(roce::Opcode opcode, std::uint32_t psn) {
  roce::Packet packet;
  packet.ethernet = {.destination = kSwitchMac, .source = kClientMac};
  roce::Ipv4 ip;
  ip.source = kClientIp;
  ip.destination = kSwitchIp;
  packet.ip = ip;
  packet.bth.opcode = opcode;
  packet.bth.destination_qp = kQueuePair;
  packet.bth.psn = roce::Psn(psn);
  return packet;
}

// Gives the switch all frames, and takes as many.
void pass(p4::Switch& device, const std::vector<std::vector<std::byte>>& frames) {
  for (const std::vector<std::byte>& frame : frames) {
    device.receive(1, frame);
    device.run();
    require(device.departed().has_value());
  }
}

void atomics(benchmark::State& state, std::shared_ptr<const p4::Program> program) {
  p4::Switch device(std::move(program), {.ports = 4, .icrc = true});
  p4::State& tables = device.state();
  tables.table("stations").add({{.value = p4::address_number(kClientMac)}}, "forward", {1});
  tables.table("own_addresses")
      .add({{.value = p4::address_number(kSwitchIp)}}, "is_here", {p4::address_number(kSwitchMac)});
  tables.table("regions").add({{.value = kKey}}, "region", {kWordsAddress, p4::U128{kWords} * 8, 0, 7});
  tables.table("queue_pairs")
      .add({{.value = p4::address_number(kSwitchIp)}, {.value = kQueuePair}}, "connection",
           {0, p4::address_number(kClientIp), 0x11});
  std::vector<std::vector<std::byte>> frames;
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    roce::Packet packet = to_switch(roce::Opcode::fetch_add, i);
    packet.atomic = {.virtual_address = kWordsAddress + std::uint64_t{8} * (i % kWords),
                     .r_key = kKey,
                     .swap_or_add = 1,
                     .compare = 0};
    frames.push_back(frame_of(packet));
  }
  std::uint64_t rounds = 0;
  const auto work = [&] {
    tables.reg("next_psn").write(0, 0);
    pass(device, frames);
    ++rounds;
  };
  for (auto _ : state) {
    work();
  }
  state.counters["packets/s"] = kPackets / best_seconds(work);
  require(tables.reg("Serve.words").read(0) == p4::U128{rounds} * (kPackets / kWords));
}

void forwarding(benchmark::State& state, std::shared_ptr<const p4::Program> program) {
  p4::Switch device(std::move(program), {.ports = 4, .icrc = true});
  device.state().table("switching").add({{.value = p4::address_number(kSwitchMac)}}, "forward", {2});
  const std::vector<std::byte> payload = bench::micro::numbers(1024);
  std::vector<std::vector<std::byte>> frames;
  for (std::uint32_t i = 0; i < 64; ++i) {
    roce::Packet packet = to_switch(roce::Opcode::send_only, i);
    packet.payload = payload;
    frames.push_back(frame_of(packet));
  }
  const auto work = [&] { pass(device, frames); };
  for (auto _ : state) {
    work();
  }
  state.counters["packets/s"] = static_cast<double>(frames.size()) / best_seconds(work);
}

std::shared_ptr<const p4::Program> interpreted(const std::string& name) {
  return p4::compile_file(std::string(SIDELATCH_P4_FOLDER) + "/" + name);
}

void atomics_compiled(benchmark::State& state) { atomics(state, p4::programs::switch_atomics()); }
void atomics_interpreted(benchmark::State& state) { atomics(state, interpreted("switch_atomics.p4")); }
void forwarding_compiled(benchmark::State& state) { forwarding(state, p4::programs::l2_l3()); }
void forwarding_interpreted(benchmark::State& state) { forwarding(state, interpreted("l2_l3.p4")); }

BENCHMARK(atomics_compiled);
BENCHMARK(atomics_interpreted);
BENCHMARK(forwarding_compiled);
BENCHMARK(forwarding_interpreted);

}  // namespace
