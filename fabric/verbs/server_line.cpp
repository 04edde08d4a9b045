#include "server_line.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <algorithm>
#include <chrono>

namespace sidelatch::fabric::verbs {

namespace {

constexpr auto kPatience = std::chrono::seconds(10);

}  // namespace

ibv_gid ServerLine::address() { return begin(); }

ibv_gid ServerLine::begin() {
  server_.emplace(HostAndPort::parse(options_->memory, kDefaultPort), kPatience);
  try {
    return server_->ask_for<exchange::Welcome>(exchange::Hello{options_->token, switch_id_}, kPeer).gid;
  } catch (...) {
    server_.reset();
    throw;
  }
}

std::vector<std::uint64_t> ServerLine::read_words(const SwitchedTuples& tuples) {
  std::vector<std::uint64_t> all;
  all.reserve(tuples.count);
  while (all.size() < tuples.count) {
    const std::uint64_t count = std::min(exchange::kMostWords, tuples.count - all.size());
    const auto part = ask<exchange::Words>(exchange::ReadWords{
        tuples.memory.subspan(all.size() * tuples.slot_bytes, count * tuples.slot_bytes), tuples.slot_bytes, count});
    if (part.words.size() != count) {
      throw SocketError("the memory server answers with another number of words");
    }
    all.insert(all.end(), part.words.begin(), part.words.end());
  }
  return all;
}

}  // namespace sidelatch::fabric::verbs
