#include <sidelatch/fabric/verbs/switch_exchange.h>

#include "start_thread.h"
#include "switch_moves.h"
#include "switch_recovery.h"
#include "switch_service.h"

#include "common/file_descriptor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

namespace {

using Clock = std::chrono::steady_clock;
// Clients must send Hello at once.
constexpr auto kHelloWithin = std::chrono::seconds(10);
// If no descriptors are left, no client can be accepted, and the listening socket stays readable.
constexpr int kPauseMs = 100;
// More would be over before it began: poll(2) and the clock cannot count it.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24);

// The server's side of a conversation, for a thread that does nothing else.
class Listener {
 public:
  explicit Listener(int socket) : socket_(socket) {}

  /// Nothing: the client has gone, or has sent nothing before the deadline. Throws exchange::ExchangeError.
  [[nodiscard]] std::optional<exchange::Message> receive(std::optional<Clock::time_point> deadline) {
    for (;;) {
      std::span<const std::byte> bytes = received_;
      if (std::optional<exchange::Message> message = exchange::decode(bytes)) {
        received_.erase(received_.begin(), received_.end() - static_cast<std::ptrdiff_t>(bytes.size()));
        return message;
      }
      if (deadline) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
        pollfd one{socket_, POLLIN, 0};
        if (left <= 0 || ::poll(&one, 1, static_cast<int>(left)) == 0) {
          return std::nullopt;
        }
      }
      std::array<std::byte, 4096> more{};
      const ssize_t count = ::recv(socket_, more.data(), more.size(), 0);
      if (count > 0) {
        received_.insert(received_.end(), more.begin(), more.begin() + count);
      } else if (count == 0 || errno != EINTR) {
        return std::nullopt;
      }
    }
  }

  /// False: the client takes nothing.
  bool send(const exchange::Message& message) const {
    const std::vector<std::byte> bytes = exchange::encode(message);
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent > 0) {
        at += static_cast<std::size_t>(sent);
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }

 private:
  int socket_;
  std::vector<std::byte> received_;
};

}  // namespace

class SwitchExchange::Server {
 public:
  Server(SwitchControl& control, const SwitchExchangeOptions& options) : options_(options), shared_(control) {
    if (options.grace < std::chrono::milliseconds(0) || options.grace > kLongestWait) {
      throw std::invalid_argument(
          fmt::format("grace is {} ms: it must be 0 to {} (24 hours)", options.grace.count(), kLongestWait.count()));
    }
    if (options.silence <= std::chrono::milliseconds(0) || options.silence > kLongestWait) {
      throw std::invalid_argument(fmt::format("silence is {} ms: it must be 1 to {} (24 hours)",
                                              options.silence.count(), kLongestWait.count()));
    }
    if (options.most_clients == 0) {
      throw std::invalid_argument("most_clients must be 1 at least");
    }
    if (!options.memory.empty()) {
      static_cast<void>(HostAndPort::parse(options.memory, 1));
    }
    at_ = HostAndPort::parse(options.address, kDefaultSwitchPort);
    if (options.any_port) {
      at_.port = 0;
    }
    listening_ = listen_on(at_);
    wake_ = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!wake_.valid()) {
      throw SocketError(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
    }
    try {
      constexpr std::string_view kWhatFor = "for the switch's exchange";
      thread_ = start_thread(kWhatFor, [this] { accept_clients(); });
      if (shared_.with([](SwitchControl& one) { return one.cache() != nullptr; })) {  // a client may be here already
        mover_ = start_thread(kWhatFor, [this] { move_tuples(); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() { stop(); }

  [[nodiscard]] const HostAndPort& at() const noexcept { return at_; }
  [[nodiscard]] std::uint32_t clients() const noexcept { return greeted_; }
  [[nodiscard]] std::string problem() { return shared_.problem(); }

 private:
  struct Client {
    FileDescriptor socket;
    std::thread thread;
    std::atomic<bool> done{false};
  };

  // Ends all threads that have begun; a client may have come before the last of them.
  void stop() noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.number(), &one, sizeof one));
    for (std::thread* const thread : {&thread_, &mover_}) {
      if (thread->joinable()) {
        thread->join();
      }
    }
    is_leaving_ = true;
    for (Client& client : clients_) {
      ::shutdown(client.socket.number(), SHUT_RDWR);
    }
    for (Client& client : clients_) {
      client.thread.join();
    }
  }

  void accept_clients() {
    int pause_ms = -1;
    for (;;) {
      std::array<pollfd, 2> watched{
          {{wake_.number(), POLLIN, 0}, {pause_ms < 0 ? listening_.number() : -1, POLLIN, 0}}};
      static_cast<void>(::poll(watched.data(), watched.size(), pause_ms < 0 ? recovery_wait_ms() : pause_ms));
      pause_ms = -1;
      if (watched[0].revents != 0) {
        return;
      }
      recovery_.look();
      reap();
      if (watched[1].revents == 0) {
        continue;
      }
      FileDescriptor socket(::accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket.valid()) {
        pause_ms = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM ? kPauseMs : -1;
        continue;
      }
      begin(std::move(socket));
    }
  }

  // Who finds a tuple cold that it would latch tries again, and the switch can only note that.
  void move_tuples() {
    constexpr int kLookEveryMs = 1;
    constexpr int kIdleMs = 20;
    for (;;) {
      pollfd wake{wake_.number(), POLLIN, 0};
      if (::poll(&wake, 1, greeted_ == 0 ? kIdleMs : kLookEveryMs) > 0) {
        return;
      }
      if (greeted_ != 0) {
        moves_.look();
      }
    }
  }

  // A recovery may begin, or end, while this waits.
  [[nodiscard]] int recovery_wait_ms() {
    if (options_.memory.empty()) {
      return -1;
    }
    constexpr std::int64_t kLookEveryMs = 200;
    const auto due = recovery_.due();
    const std::int64_t left =
        due ? std::chrono::ceil<std::chrono::milliseconds>(*due - Clock::now()).count() : kLookEveryMs;
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLookEveryMs));
  }

  void begin(FileDescriptor socket) {
    watch_over(socket);
    const timeval patience{.tv_sec = 10, .tv_usec = 0};  // for a client that reads nothing
    ::setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    Client& client = clients_.emplace_back();
    client.socket = std::move(socket);
    if (clients_.size() > options_.most_clients) {
      static_cast<void>(
          Listener(client.socket.number())
              .send(exchange::Refused{fmt::format("it has {} clients already (SwitchExchangeOptions::most_clients)",
                                                  clients_.size() - 1)}));
      clients_.pop_back();
      return;
    }
    try {
      client.thread = start_thread("for a client", [this, &client] {
        serve(client.socket.number());
        ::shutdown(client.socket.number(), SHUT_RDWR);
        client.done = true;
      });
    } catch (const std::exception& error) {
      clients_.pop_back();
      shared_.report(error.what());
    }
  }

  // Of the accepting thread.
  void reap() {
    clients_.remove_if([](Client& client) {
      if (client.done) {
        client.thread.join();
        return true;
      }
      return false;
    });
  }

  void serve(int socket) {
    const std::unique_ptr<SwitchService> service =
        options_.memory.empty() ? make_word_service(shared_, options_)
                                : make_tuple_service(shared_, recovery_, moves_, options_, switch_id_, is_leaving_);
    Listener client(socket);
    bool greeted = false;
    try {
      greeted = greet(client, *service);
      if (greeted) {
        ++greeted_;
        talk(client, *service);
      }
    } catch (const std::exception& error) {
      static_cast<void>(client.send(exchange::Refused{error.what()}));
    }
    try {
      if (is_leaving_) {
        service->leave();
      }
      service->end();
    } catch (const std::exception& error) {
      shared_.report(fmt::format(
          "a client has ended, and not each of its connections: {}. Those that have not stay fenced, and their latches "
          "held: restart the memory node and this switch",
          error.what()));
    }
    greeted_ -= greeted ? 1U : 0U;
  }

  bool greet(Listener& client, SwitchService& service) const {
    const std::optional<exchange::Message> first = client.receive(Clock::now() + kHelloWithin);
    if (!first) {
      return false;
    }
    const auto* const hello = std::get_if<exchange::Hello>(&*first);
    if (hello == nullptr || !same_token(options_.token, hello->token)) {
      static_cast<void>(client.send(exchange::Refused{hello == nullptr ? "the first message must be a hello"
                                                                       : "the token is not the switch's (--token)"}));
      return false;
    }
    return client.send(service.welcome());
  }

  static void talk(Listener& client, SwitchService& service) {
    while (const std::optional<exchange::Message> message = client.receive(std::nullopt)) {
      const std::optional<exchange::Message> answer = service.answer(*message);
      if (answer && !client.send(*answer)) {
        return;
      }
    }
  }

  SwitchExchangeOptions options_;
  SharedSwitch shared_;
  std::uint64_t switch_id_ = secret_number();  // of this process; a restarted one is another switch
  SwitchRecovery recovery_{shared_, options_, switch_id_};
  SwitchMoves moves_{shared_, options_, switch_id_};
  HostAndPort at_;
  FileDescriptor listening_;
  FileDescriptor wake_;
  std::list<Client> clients_;  // of the accepting thread, until it has ended
  std::atomic<std::uint32_t> greeted_{0};
  std::atomic<bool> is_leaving_{false};
  std::thread thread_;
  std::thread mover_;  // of a switch that caches
};

SwitchExchange::SwitchExchange(SwitchControl& control, const SwitchExchangeOptions& options)
    : server_(std::make_unique<Server>(control, options)) {}
SwitchExchange::~SwitchExchange() = default;

std::string SwitchExchange::address() const { return server_->at().to_string(); }
std::uint32_t SwitchExchange::clients() const noexcept { return server_->clients(); }
std::string SwitchExchange::problem() const { return server_->problem(); }

}  // namespace sidelatch::fabric::verbs
