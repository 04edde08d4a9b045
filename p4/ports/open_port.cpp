#include "p4/ports/open_port.h"

#include "roce/port/ports.h"
#include "roce/wire/link_paths.h"
#include "roce/wire/wire_name.h"

#include <sidelatch/p4/wired_switch.h>

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace sidelatch::p4 {

namespace {

constexpr std::uint16_t kMostPorts = 511;  // 511 as egress_spec means drop

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

[[noreturn]] void refuse(const PortOptions& port, std::string_view why) {
  throw std::invalid_argument(fmt::format("port {}={}: {}: a port is {}", port.number, port.wire, why, kPortForms));
}

std::unique_ptr<roce::Wire> open_link(const PortOptions& port, std::string_view rest) {
  const std::size_t first = rest.find(',');
  const std::size_t second = first == std::string_view::npos ? first : rest.find(',', first + 1);
  if (first == std::string_view::npos || first == 0 || first + 1 == rest.size() || second == first + 1) {
    refuse(port, "a link has two sockets");
  }
  roce::LinkPortOptions options{
      .local_path = rest.substr(0, first),
      .remote_path =
          rest.substr(first + 1, second == std::string_view::npos ? std::string_view::npos : second - first - 1)};
  if (second != std::string_view::npos) {
    constexpr std::string_view kMtu = "mtu=";
    const std::string_view text = rest.substr(second + 1);
    const auto mtu = text.starts_with(kMtu) ? whole_number<std::size_t>(text.substr(kMtu.size())) : std::nullopt;
    if (!mtu || *mtu == 0 || *mtu > roce::kMostFrameBytes - roce::Ethernet::kBytes) {
      refuse(port,
             fmt::format("\"{}\" is no mtu=BYTES from 1 to {}", text, roce::kMostFrameBytes - roce::Ethernet::kBytes));
    }
    options.most_frame_bytes = *mtu + roce::Ethernet::kBytes;
  }
  if (const std::string fault = roce::fault_of_link(options.local_path, options.remote_path); !fault.empty()) {
    refuse(port, fault);
  }
  return roce::open_link_port(options);
}

}  // namespace

PortOptions parse_port(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto number = whole_number<std::uint16_t>(std::string_view(text).substr(0, equals));
  if (equals == std::string::npos || !number) {
    throw std::invalid_argument(fmt::format("the port \"{}\" has no number: a port is {}", text, kPortForms));
  }
  if (*number >= kMostPorts) {
    throw std::invalid_argument(fmt::format("the port \"{}\": ports have the numbers 0 to {}", text, kMostPorts - 1));
  }
  return {.number = *number, .wire = text.substr(equals + 1)};
}

std::optional<PcapFiles> pcap_files(const PortOptions& port) {
  constexpr std::string_view kKind = "pcap:";
  if (!port.wire.starts_with(kKind)) {
    return std::nullopt;
  }
  const std::string rest = port.wire.substr(kKind.size());
  const std::size_t comma = rest.find(',');
  return PcapFiles{.in = rest.substr(0, comma), .out = comma == std::string::npos ? "" : rest.substr(comma + 1)};
}

OpenedPort open_port(const PortOptions& port) {
  const std::string_view text = port.wire;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  if (rest.empty()) {
    refuse(port, "this is no wire");
  }
  if (kind == "shm") {
    if (const std::string fault = roce::fault_of_wire_name(rest, roce::kMostCableNameBytes); !fault.empty()) {
      refuse(port, fault);
    }
    return {roce::open_cable_port({.name = std::string(rest)}), nullptr};
  }
  if (kind == "link") {
    return {open_link(port, rest), nullptr};
  }
  if (kind == "interface") {
    return {roce::open_packet_port({.interface = std::string(rest)}), nullptr};
  }
  if (const std::optional<PcapFiles> captures = pcap_files(port)) {
    auto pcap = std::make_unique<roce::PcapPort>(roce::PcapPortOptions{.in = captures->in, .out = captures->out});
    roce::PcapPort* const same = pcap.get();
    return {std::move(pcap), same};
  }
  refuse(port, "this is no wire");
}

}  // namespace sidelatch::p4
