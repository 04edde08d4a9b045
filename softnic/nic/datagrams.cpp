#include "datagrams.h"

#include "queue_pair.h"

#include <fmt/format.h>

#include <array>
#include <string>

namespace sidelatch::softnic::nic {

namespace {

constexpr std::uint32_t kOwnQKey = 1U << 31;  // "use the queue pair's", 10.2

std::array<std::byte, kGrhBytes> grh_of(const Packet& packet) {
  std::array<std::byte, kGrhBytes> grh{};
  if (const auto* const ip = std::get_if<Ipv4>(&packet.ip)) {
    ip->write(grh.data() + kGrhBytes - Ipv4::kBytes);
  } else {
    std::get<Ipv6>(packet.ip).write(grh.data());
  }
  return grh;
}

// Which IP header the receiver finds in its buffer (InfiniBand, annex A17.4.5.1). As providers of RoCE NICs report it
// in the place of the service level: 8 for UDP, and 1 for IPv6 or 2 for IPv4.
std::uint8_t packet_type_of(const Packet& packet) { return std::holds_alternative<Ipv4>(packet.ip) ? 8 | 2 : 8 | 1; }

}  // namespace

void Datagrams::on_packet(const Packet& packet) {
  const std::uint64_t bytes = kGrhBytes + packet.payload.size();
  if (!core_.receives_packets() || packet.deth.q_key != core_.attributes.q_key || core_.receives.size() == 0 ||
      core_.receives.first_length() < bytes || !core_.take_receive(buffer_)) {
    ++core_.device.counters.dropped;
    return;
  }
  ++messages_;
  const std::array<std::byte, kGrhBytes> grh = grh_of(packet);
  if (!core_.place_received(buffer_, 0, grh, messages_) ||
      !core_.place_received(buffer_, kGrhBytes, packet.payload, messages_)) {
    core_.fail_receive(buffer_.id, CompletionStatus::local_protection);
    core_.enter_error([] { return std::string("a receive request's buffer may not be written"); });
    return;
  }
  core_.complete_receive({.id = buffer_.id,
                          .kind = CompletionKind::receive,
                          .has_immediate = packet.bth.opcode == Opcode::ud_send_only_with_immediate,
                          .has_grh = true,
                          .packet_type = packet_type_of(packet),
                          .bytes = static_cast<std::uint32_t>(bytes),
                          .immediate = packet.immediate.data,
                          .queue_pair = core_.number,
                          .source_qp = packet.deth.source_qp},
                         packet.bth.solicited_event, messages_);
}

std::optional<CompletionStatus> Datagrams::find_error(const SendEntry& entry) {
  const NicOptions& options = core_.device.options;
  const AddressVector& to = entry.request.to;
  if (entry.request.is_to_foreign || to.gid_index >= options.gids.size() ||
      !Path::is_possible(to, options.gids[to.gid_index]) || entry.request.remote_qp > Psn::kMask) {
    return CompletionStatus::local_operation;
  }
  if (entry.length > bytes_of(options.mtu)) {
    return CompletionStatus::local_length;
  }
  return std::nullopt;
}

void Datagrams::fail_send(CompletionStatus status) {
  const SendEntry& entry = core_.sends.at(core_.sends.first());
  const char* const reason = entry.request.is_to_foreign ? "; its address handle is of another protection domain" : "";
  core_.complete_send(entry, status);
  core_.sends.pop();
  core_.enter_send_error([&] { return fmt::format("a request failed: {}{}", text(status), reason); });
}

std::size_t Datagrams::produce(std::span<std::byte> out) {
  if (core_.state() != QueuePairState::rts || core_.sends.is_empty()) {
    return 0;
  }
  const std::uint64_t number = core_.sends.first();
  const SendEntry& entry = core_.sends.at(number);
  if (const auto error = find_error(entry)) {
    fail_send(*error);
    return 0;
  }
  const SendRequest& request = entry.request;
  const NicOptions& options = core_.device.options;
  Packet packet =
      Path(request.to, options.mac, options.gids[request.to.gid_index], core_.number, request.remote_qp).packet();
  packet.bth.opcode = request.kind == WorkKind::send ? Opcode::ud_send_only : Opcode::ud_send_only_with_immediate;
  packet.bth.solicited_event = request.solicited;
  packet.bth.psn = psn_;
  packet.deth = {.q_key = (request.remote_q_key & kOwnQKey) != 0 ? core_.attributes.q_key : request.remote_q_key,
                 .source_qp = core_.number};
  packet.immediate = {.data = request.immediate};
  const std::span<std::byte> payload = out.subspan(payload_offset(packet), entry.length);
  if (!core_.sends.gather(number, 0, payload, core_.device.table, core_.options.domain, core_.device.memory,
                          core_.gone)) {
    fail_send(CompletionStatus::local_protection);
    return 0;
  }
  packet.payload = payload;
  const std::size_t bytes = std::get<std::size_t>(build(packet, out));
  ++psn_;
  core_.complete_send(entry, CompletionStatus::success);
  core_.sends.pop();
  return bytes;
}

}  // namespace sidelatch::softnic::nic
