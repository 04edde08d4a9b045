#include "flood.h"
#include "tests/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace sidelatch::softnic::nic {

namespace {

std::vector<Bytes> corpus_and_captures() {
  std::vector<Bytes> frames = read_capture("rxe_ipv4.pcap");
  std::ranges::copy(read_capture("rxe_ipv6.pcap"), std::back_inserter(frames));
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(in_source_tree("tests/data/roce/corpus"))) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(text));
    frames.emplace_back(bytes.begin(), bytes.end());
  }
  return frames;
}

}  // namespace

FloodFrames::FloodFrames(const Target& target, std::uint64_t seed) : target_(target), random_(seed) {
  for (const Bytes& frame : corpus_and_captures()) {
    const auto parsed = parse_frame(frame, IcrcCheck::no);
    const auto* packet = std::get_if<Packet>(&parsed);
    if (packet == nullptr || !std::holds_alternative<Ipv4>(packet->ip)) {
      continue;
    }
    Packet ours = *packet;
    ours.ethernet = Ethernet{.destination = target.mac, .source = {2, 6, 6, 6, 6, 6}};
    auto& ip = std::get<Ipv4>(ours.ip);
    ip.source = {10, 66, 66, 66};
    ip.destination = ipv4_in(target.gid).value();
    ours.bth.destination_qp = target.queue_pair;
    ours.bth.p_key = Bth::kDefaultPKey;
    valid_.push_back(built(ours));
  }
  if (valid_.empty()) {
    throw std::runtime_error("there are no frames to make a flood of");
  }
}

const Bytes& FloodFrames::next() {
  frame_ = valid_[random_() % valid_.size()];
  switch (random_() % 6) {
    case 0:  // cut short
      frame_.resize(random_() % frame_.size());
      break;
    case 1:  // bits flipped: the ICRC refuses it, or it is the next kind
      for (std::uint64_t flips = 1 + random_() % 4; flips > 0; --flips) {
        frame_[Ethernet::kBytes + random_() % (frame_.size() - Ethernet::kBytes)] ^=
            static_cast<std::byte>(1U << random_() % 8);
      }
      break;
    case 2:  // a right packet from somebody else
      break;
    case 3:  // anything
      frame_.resize(random_() % 200);
      std::ranges::generate(frame_, [&] { return static_cast<std::byte>(random_()); });
      break;
    default: {  // in the peer's name, for another partition or queue pair
      const auto parsed = parse_frame(frame_);
      Packet packet = std::get<Packet>(parsed);
      packet.ethernet->source = target_.peer_mac;
      std::get<Ipv4>(packet.ip).source = ipv4_in(target_.peer_gid).value();
      if (random_() % 2 == 0) {
        packet.bth.p_key = 0x1234;
      } else {
        packet.bth.destination_qp ^= 0x800000;
      }
      frame_ = built(packet);
    }
  }
  return frame_;
}

void CheckedClient::complain(const std::string& what) {
  if (complaint_.empty()) {
    complaint_ = what;
  }
}

void CheckedClient::begin() {
  const std::uint64_t round = begun_++;
  const std::size_t from = place_of(round);
  const std::size_t word = from + 512;
  const std::size_t into = from + 1024;
  for (std::size_t i = 0; i < kObjectBytes; ++i) {
    memory_.data[from + i] = byte_of(round, i);
  }
  const auto sge = [&](std::size_t offset, std::size_t length) {
    return Sge{reinterpret_cast<std::uintptr_t>(memory_.data) + offset, static_cast<std::uint32_t>(length),
               memory_.key};
  };
  const auto post = [&](WorkKind kind, const Sge& local, std::size_t remote) {
    const Post posted = pair_.post_send({.id = round * 3 + (kind == WorkKind::write  ? 0
                                                            : kind == WorkKind::read ? 2
                                                                                     : 1),
                                         .kind = kind,
                                         .signaled = true,
                                         .sges = {&local, 1},
                                         .remote_address = memory_.remote_address + remote,
                                         .rkey = memory_.rkey,
                                         .swap_or_add = 1});
    if (posted != Post::done) {
      complain(std::string(text(posted)));
    }
  };
  post(WorkKind::write, sge(from, kObjectBytes), from);
  post(WorkKind::fetch_add, sge(word, 8), kCounterOffset);
  post(WorkKind::read, sge(into, kObjectBytes), from);
}

void CheckedClient::end(std::uint64_t round) {
  const std::size_t from = place_of(round);
  std::uint64_t count = 0;
  std::memcpy(&count, memory_.data + from + 512, sizeof count);
  if (count != round) {
    complain(fmt::format("round {}: the counter was {}", round, count));
  }
  for (std::size_t i = 0; i < kObjectBytes; ++i) {
    if (memory_.data[from + 1024 + i] != byte_of(round, i)) {
      return complain(fmt::format("round {}: byte {} is wrong", round, i));
    }
  }
}

void CheckedClient::go_on() {
  std::array<Completion, 16> taken;
  const std::size_t count = completions_.poll(taken);
  for (const Completion& completion : std::span(taken).first(count)) {
    if (completion.status != CompletionStatus::success) {
      complain(fmt::format("request {}: {}", completion.id, text(completion.status)));
    } else if (completion.id != operations_) {
      complain(fmt::format("request {} completed in the place of {}", completion.id, operations_));
    }
    ++operations_;
    if (completion.id % 3 == 2) {
      end(completion.id / 3);
      ++ended_;
    }
  }
  while (complaint_.empty() && begun_ - ended_ < kAtATime) {
    begin();
  }
}

}  // namespace sidelatch::softnic::nic
