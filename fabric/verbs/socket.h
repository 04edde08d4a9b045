// The bootstrap over TCP: whole messages, with a time limit for each.
#pragma once

#include "exchange.h"

#include "common/file_descriptor.h"
#include "common/tcp.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sidelatch::fabric::verbs {

/// The other side has understood the question and refuses; the conversation continues.
class Refusal : public SocketError {
 public:
  Refusal(const std::string& why, std::uint8_t code) : SocketError(why), code_(code) {}
  [[nodiscard]] std::uint8_t code() const noexcept { return code_; }  ///< of exchange::Refused

 private:
  std::uint8_t code_;
};

/// The conversation has ended with an earlier question: no further one can be asked in it.
class ConversationEnded : public SocketError {
 public:
  using SocketError::SocketError;
};

/// Takes the same time for every wrong token.
[[nodiscard]] bool same_token(const std::string& a, const std::string& b) noexcept;

/// A number that cannot be guessed, and not 0. Throws std::runtime_error if the system gives none.
[[nodiscard]] std::uint64_t secret_number();

/// The client's side: asks and waits for the answer. An error ends the conversation, because a late answer would be
/// taken for the answer to the next question. Later questions fail at once, with ConversationEnded.
class Conversation {
 public:
  /// Connects within `limit`.
  Conversation(const HostAndPort& to, std::chrono::milliseconds limit);
  /// Throws SocketError if the other side is gone, silent for longer than the limit, or does not speak the protocol.
  [[nodiscard]] exchange::Message ask(const exchange::Message& question);
  /// The same, for the type of answer that belongs to the question. Throws Refusal, and SocketError for another answer;
  /// both say that `peer` gave it, and the conversation continues.
  template <class Answer>
  [[nodiscard]] Answer ask_for(const exchange::Message& question, std::string_view peer) {
    exchange::Message answer = ask(question);
    if (const auto* const refused = std::get_if<exchange::Refused>(&answer)) {
      throw Refusal(fmt::format("{} refuses: {}", peer, refused->why), refused->code);
    }
    if (auto* const wanted = std::get_if<Answer>(&answer)) {
      return std::move(*wanted);
    }
    throw SocketError(fmt::format("{} answers something else than was asked", peer));
  }
  /// Sends a message that has no answer.
  void tell(const exchange::Message& message);
  /// From now on `is_patient` is asked whenever the limit has passed while this waits for an answer. True: it waits as
  /// long again.
  void wait_while(std::function<bool()> is_patient) { is_patient_ = std::move(is_patient); }
  /// Ends the conversation for a thread that waits in ask() or tell(). Any thread may call this.
  void interrupt() noexcept;
  /// -1 once it has ended. For the thread that asks.
  [[nodiscard]] int descriptor() const noexcept { return socket_.valid() ? socket_.number() : -1; }

 private:
  void send(std::span<const std::byte> bytes);
  [[nodiscard]] exchange::Message receive();
  [[noreturn]] void end(const std::string& why);

  std::string peer_;
  std::chrono::milliseconds limit_;
  std::function<bool()> is_patient_;
  FileDescriptor socket_;
  std::mutex closing_;  // keeps interrupt() from a number that is no longer this socket's
  std::vector<std::byte> received_;
  std::string ended_;  // why it ended
};

}  // namespace sidelatch::fabric::verbs
