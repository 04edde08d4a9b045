// Properties for any bytes: parse() reads no byte outside, build() writes accepted packets again byte for byte, and
// parse() accepts whatever build() makes of any values, with the same values. Run by libFuzzer (`scripts/fuzz
// roce-packet`), and briefly by roce_packet_test.cpp.
#include "tests/fuzz/roce_packet_fuzz.h"

#include "roce/big_endian.h"
#include "roce/icrc.h"
#include "roce/packet.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using namespace sidelatch::roce;

void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "roce_packet_fuzz: %s\n", what);
    std::abort();
  }
}

// The place of an accepted packet's IPv4 checksum, if it has one.
std::byte* ipv4_checksum_in(const Packet& packet, std::byte* bytes) {
  return std::holds_alternative<Ipv4>(packet.ip) ? bytes + (packet.ethernet ? Ethernet::kBytes : 0) + 10 : nullptr;
}

std::vector<std::byte> built(const Packet& packet) {
  std::vector<std::byte> out(encoded_bytes(packet));
  const auto result = build(packet, out);
  require(std::holds_alternative<std::size_t>(result), "an accepted packet cannot be built");
  require(std::get<std::size_t>(result) == out.size(), "a packet has another length than was said");
  return out;
}

// `input` was accepted as `packet`, its ICRC perhaps unchecked.
void check_accepted(std::span<const std::byte> input, const Packet& packet, bool icrc_was_checked) {
  const std::vector<std::byte> out = built(packet);
  require(out.size() <= input.size(), "a packet is longer than its input");
  std::vector<std::byte> expected(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(out.size()));
  if (std::byte* const checksum = ipv4_checksum_in(packet, expected.data());
      checksum != nullptr && load16(checksum) == 0xffff) {
    store16(checksum, 0);  // the same in ones' complement
  }
  const std::size_t compared = out.size() - (icrc_was_checked ? 0 : kIcrcBytes);
  require(std::memcmp(out.data(), expected.data(), compared) == 0, "a packet is built in other bytes than it was read");
  const auto again = packet.ethernet ? parse_frame(out) : parse_datagram(out);
  require(std::holds_alternative<Packet>(again), "what was built is refused");
  const auto& second = std::get<Packet>(again);
  require(second.bth == packet.bth && second.payload.size() == packet.payload.size(), "a packet changes on its way");
  // One byte less is never enough.
  std::vector<std::byte> small(out.size() - 1);
  const auto refused = build(packet, small);
  require(std::holds_alternative<Refusal>(refused) && std::get<Refusal>(refused) == Refusal::buffer_too_small,
          "a buffer that is too small was written to");
}

void check_parsed(std::span<const std::byte> input, decltype(&parse_frame) parse) {
  for (const IcrcCheck check : {IcrcCheck::no, IcrcCheck::yes}) {
    const auto parsed = parse(input, check);
    if (const auto* const refusal = std::get_if<Refusal>(&parsed)) {
      require(text(*refusal) != "no refusal", "a refusal without a reason");
      require(check == IcrcCheck::no || *refusal == Refusal::icrc, "the ICRC decides what has nothing to do with it");
      return;
    }
    const auto& packet = std::get<Packet>(parsed);
    require(packet.payload.empty() || (packet.payload.data() >= input.data() &&
                                       packet.payload.data() + packet.payload.size() <= input.data() + input.size()),
            "a payload lies outside the input");
    check_accepted(input, packet, check == IcrcCheck::yes);
  }
}

// The next header from the input, with zeros behind its end.
template <class Header>
Header next(std::span<const std::byte>& input) {
  std::array<std::byte, Header::kBytes> bytes{};
  const std::size_t there = std::min(bytes.size(), input.size());
  std::copy_n(input.data(), there, bytes.data());
  input = input.subspan(there);
  return Header::read(bytes.data());
}

// Any values in all fields; the rest of the input is the payload.
void check_any_values(std::span<const std::byte> input) {
  if (input.size() < 2) {
    return;
  }
  const auto choice = std::to_integer<unsigned>(input[0]);
  Packet packet;
  input = input.subspan(1);
  packet.bth = next<Bth>(input);
  if ((choice & 1) != 0) {
    packet.ethernet = next<Ethernet>(input);
  }
  if ((choice & 2) != 0) {
    packet.ip = next<Ipv4>(input);
  } else {
    packet.ip = next<Ipv6>(input);
  }
  packet.udp = next<Udp>(input);
  packet.deth = next<Deth>(input);
  packet.reth = next<Reth>(input);
  packet.atomic = next<AtomicEth>(input);
  packet.aeth = next<Aeth>(input);
  packet.atomic_ack = next<AtomicAckEth>(input);
  packet.immediate = next<ImmDt>(input);
  packet.ieth = next<Ieth>(input);
  packet.payload = input;
  std::vector<std::byte> out(encoded_bytes(packet));
  const auto result = build(packet, out);
  if (std::holds_alternative<Refusal>(result)) {
    return;
  }
  const auto parsed = packet.ethernet ? parse_frame(out) : parse_datagram(out);
  require(std::holds_alternative<Packet>(parsed), "what was built of any values is refused");
  const auto& read = std::get<Packet>(parsed);
  require(std::ranges::equal(read.payload, packet.payload), "a payload changes on its way");
  const OpcodeTraits traits = traits_of(packet.bth.opcode).value();
  require((!traits.deth || read.deth == packet.deth) && (!traits.reth || read.reth == packet.reth) &&
              (!traits.atomic_eth || read.atomic == packet.atomic) && (!traits.aeth || read.aeth == packet.aeth) &&
              (!traits.atomic_ack_eth || read.atomic_ack == packet.atomic_ack) &&
              (!traits.immediate || read.immediate == packet.immediate) && (!traits.ieth || read.ieth == packet.ieth),
          "a header changes on its way");
  require(built(read) == out, "a packet is built differently the second time");
}

}  // namespace

void sidelatch::roce::check_codec(std::span<const std::byte> bytes) {
  // A heap copy of exactly this size, so that AddressSanitizer detects the first byte outside.
  const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  std::copy_n(bytes.data(), bytes.size(), copy.get());
  const std::span<const std::byte> input(copy.get(), bytes.size());
  check_parsed(input, parse_frame);
  check_parsed(input, parse_datagram);
  check_any_values(input);
}

#ifdef SIDELATCH_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_codec(std::as_bytes(std::span(data, size)));
  return 0;
}
#endif
