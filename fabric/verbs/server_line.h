// ServerLine: what a switch asks the memory server behind it, in a conversation of its own. It is begun with the first
// question, and anew after one that has ended because the server was away.
#pragma once

#include "exchange.h"
#include "socket.h"

#include <sidelatch/fabric/verbs/switch_exchange.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace sidelatch::fabric::verbs {

class ServerLine {
 public:
  /// `options` outlive this object. `switch_id`: of this switch, not 0.
  ServerLine(const SwitchExchangeOptions& options, std::uint64_t switch_id)
      : options_(&options), switch_id_(switch_id) {}

  /// Throws as Conversation::ask_for().
  template <class Answer>
  Answer ask(const exchange::Message& question) {
    try {
      if (!server_) {
        begin();
      }
      return server_->ask_for<Answer>(question, kPeer);
    } catch (const Refusal&) {
      throw;
    } catch (const SocketError&) {
      server_.reset();
      throw;
    }
  }
  /// The address of the server's port. Throws as ask().
  [[nodiscard]] ibv_gid address();
  /// The first word of each tuple, by the server's CPU. Throws as ask().
  [[nodiscard]] std::vector<std::uint64_t> read_words(const SwitchedTuples& tuples);

 private:
  static constexpr const char* kPeer = "the memory server";
  ibv_gid begin();

  const SwitchExchangeOptions* options_;
  std::uint64_t switch_id_;
  std::optional<Conversation> server_;
};

}  // namespace sidelatch::fabric::verbs
