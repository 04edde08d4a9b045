#include "packet_filter.h"

#include "neighbours.h"

#include "roce/big_endian.h"
#include "roce/headers.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sidelatch::roce {

namespace {

constexpr std::uint32_t kFragmentOffset = 0x1fff;  // without the more-fragments flag, which parse.cpp refuses

constexpr std::uint32_t kEtherTypeAt = 12;
constexpr std::uint32_t kIpAt = Ethernet::kBytes;

// Builds a program instruction by instruction. A comparison that fails jumps to the end of its part: "skip", or
// "refuse".
class Program {
 public:
  void load(std::uint32_t width, std::uint32_t at) { add(BPF_LD | width | BPF_ABS, at); }
  // Loads the length of the IPv4 header into the index register, then the value at `at` after that header.
  void load_behind_ipv4(std::uint32_t width, std::uint32_t at) {
    add(BPF_LDX | BPF_B | BPF_MSH, kIpAt);
    add(BPF_LD | width | BPF_IND, kIpAt + at);
  }
  // Continues if equal; else jumps to the next end_part().
  void demand(std::uint32_t value) {
    open_.push_back(code_.size());
    add(BPF_JMP | BPF_JEQ | BPF_K, value);
  }
  void demand_no_bit(std::uint32_t bits) {
    inverted_.push_back(code_.size());
    add(BPF_JMP | BPF_JSET | BPF_K, bits);
  }
  void accept() { add(BPF_RET | BPF_K, std::numeric_limits<std::uint32_t>::max()); }
  void refuse() { add(BPF_RET | BPF_K, 0); }
  // Comparisons that failed since the last end_part() continue here.
  void end_part() {
    for (const std::size_t at : open_) {
      code_[at].jf = distance_from(at);
    }
    for (const std::size_t at : inverted_) {
      code_[at].jt = distance_from(at);
    }
    open_.clear();
    inverted_.clear();
  }
  [[nodiscard]] std::vector<sock_filter> code() const { return code_; }

 private:
  void add(std::uint32_t code, std::uint32_t k) {
    code_.push_back({.code = static_cast<std::uint16_t>(code), .jt = 0, .jf = 0, .k = k});
  }
  [[nodiscard]] std::uint8_t distance_from(std::size_t at) const {
    return static_cast<std::uint8_t>(code_.size() - at - 1);
  }

  std::vector<sock_filter> code_;
  std::vector<std::size_t> open_;
  std::vector<std::size_t> inverted_;
};

std::uint32_t word(std::span<const std::uint8_t> bytes, std::size_t at) {
  return load32(std::as_bytes(bytes).data() + at);
}

void add_arp(Program& program) {
  program.load(BPF_H, kEtherTypeAt);
  program.demand(kEtherTypeArp);
  program.accept();
  program.end_part();
}

void add_ipv4(Program& program, const Ipv4Address& own) {
  program.load(BPF_H, kEtherTypeAt);
  program.demand(kEtherTypeIpv4);
  program.load(BPF_B, kIpAt + 9);
  program.demand(kProtocolUdp);
  program.load(BPF_W, kIpAt + 16);
  program.demand(word(own, 0));
  program.load(BPF_H, kIpAt + 6);
  program.demand_no_bit(kFragmentOffset);
  program.load_behind_ipv4(BPF_H, 2);
  program.demand(kUdpPort);
  program.accept();
  program.end_part();
}

void add_ipv6(Program& program, const Ipv6Address& own) {
  for (const std::uint32_t type : {kSolicitation, kAdvertisement}) {
    program.load(BPF_H, kEtherTypeAt);
    program.demand(kEtherTypeIpv6);
    program.load(BPF_B, kIpAt + 6);
    program.demand(kProtocolIcmpv6);
    program.load(BPF_B, kIpAt + Ipv6::kBytes);
    program.demand(type);
    program.accept();
    program.end_part();
  }
  program.load(BPF_H, kEtherTypeAt);
  program.demand(kEtherTypeIpv6);
  program.load(BPF_B, kIpAt + 6);
  program.demand(kProtocolUdp);
  for (std::uint32_t at = 0; at < own.size(); at += 4) {
    program.load(BPF_W, kIpAt + 24 + at);
    program.demand(word(own, at));
  }
  program.load(BPF_H, kIpAt + Ipv6::kBytes + 2);
  program.demand(kUdpPort);
  program.accept();
  program.end_part();
}

}  // namespace

std::vector<sock_filter> packet_filter(const StationAddresses& own) {
  Program program;
  if (own.ipv4 != Ipv4Address{}) {
    add_ipv4(program, own.ipv4);
    add_arp(program);
  }
  if (own.ipv6 != Ipv6Address{}) {
    add_ipv6(program, own.ipv6);
  }
  program.refuse();
  return program.code();
}

}  // namespace sidelatch::roce
