#include <sidelatch/fabric/verbs/memory_server.h>

#include "connection_manager.h"
#include "epoch_notes.h"
#include "node.h"
#include "own_read.h"
#include "own_words.h"
#include "socket.h"
#include "start_thread.h"
#include "switch_clients.h"

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
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

namespace {

using Clock = std::chrono::steady_clock;
// Clients must send Hello immediately after connecting.
constexpr auto kHelloLimit = std::chrono::seconds(10);
// The most clients that have connected but not sent Hello yet; more are closed at once.
constexpr std::size_t kMostStrangers = 256;
// If no descriptors are left, no client can be accepted, and the listening socket stays readable.
constexpr auto kPause = std::chrono::milliseconds(100);
// Answers are short: a client with this many unsent bytes does not read.
constexpr std::size_t kMostUnread = 1 << 20;

constexpr std::size_t kLongestName = 255;
bool is_name(std::string_view name) { return !name.empty() && name.size() <= kLongestName; }

}  // namespace

// One thread serves all clients. A client that sends nonsense, too much, or nothing is closed; the others continue.
class MemoryServer::Loop {
 public:
  Loop(VerbsNode& node, const ServerOptions& options)
      : node_(&node), options_(options), own_read_(node.port(), node.domain()) {
    if (options.most_clients == 0 || options.most_connections == 0) {
      throw std::invalid_argument("most_clients and most_connections must be 1 at least");
    }
    at_ = HostAndPort::parse(options.address, kDefaultPort);
    if (options.any_port) {
      at_.port = 0;
    }
    listening_ = listen_on(at_);
    offer_manager();
    wake_ = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!wake_.valid()) {
      throw SocketError(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
    }
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      static_cast<void>(::write(wake_.number(), &one, sizeof one));
      thread_.join();
    }
  }

  void share(std::string_view name, const MemoryRegion& region) {
    if (thread_.joinable()) {
      throw std::logic_error("share: the server has started; share its regions before that");
    }
    if (!is_name(name)) {
      throw std::invalid_argument(
          fmt::format("share: the name '{}' has {} bytes: a name has 1 to {}", name, name.size(), kLongestName));
    }
    if (find_region(name)) {
      throw std::invalid_argument(
          fmt::format("share: a region is shared as '{}' already: give each another name", name));
    }
    welcome_.regions.push_back({std::string(name), region.remote(), region.access()});
    static_cast<void>(exchange::encode(welcome_));  // checks that it is not too long
  }

  void start() {
    if (thread_.joinable()) {
      throw std::logic_error("start: the server has started already");
    }
    welcome_.node = node_->name();
    welcome_.gid = node_->port().gid();
    const Port& port = node_->port();
    std::optional<NumberList> cpus = port.options().pin_thread ? near_cpus(port.device_name()) : std::nullopt;
    thread_ = start_thread("for the memory server", [this, cpus = std::move(cpus)] {
      try {
        if (cpus) {
          pin_thread(*cpus);
        }
        run();
      } catch (const std::exception& error) {
        fail(error.what());
        clients_.clear();
        greeted_ = 0;
        listening_ = {};
      }
    });
  }

  [[nodiscard]] const HostAndPort& at() const noexcept { return at_; }
  [[nodiscard]] std::uint32_t clients() const noexcept { return greeted_; }
  [[nodiscard]] std::uint64_t clients_so_far() const noexcept { return greeted_so_far_; }
  [[nodiscard]] std::string failure() const { return failed_ ? failure_ : std::string(); }

 private:
  struct Connection {
    std::uint16_t owner = 0;
    std::unique_ptr<PassiveEnd> end;
    std::uint64_t ticket = 0;  // 0: no ticket is valid
  };
  struct LentRegion {
    std::unique_ptr<VerbsNode::Lent> memory;
    std::uint64_t taken = 0;  // bytes of its whole pages
    std::string name;         // empty if not published
    Access access{};
  };
  struct Client {
    FileDescriptor socket;
    Clock::time_point since = Clock::now();
    bool greeted = false;
    bool closing = false;   // once everything is sent
    bool has_more = false;  // after the message that was answered last
    std::vector<std::byte> received;
    std::vector<std::byte> to_send;
    std::map<std::uint32_t, Connection> connections;
    std::map<std::uint32_t, LentRegion> lent;
    std::uint64_t switch_id = 0;  // that asks for a client of its own; 0: it is no switch
  };

  void run() {
    std::vector<pollfd> watched;
    for (;;) {
      // A lost device stays readable for ever. poll(2) ignores -1.
      watched.assign({{wake_.number(), POLLIN, 0},
                      {Clock::now() < accepts_again_ ? -1 : listening_.number(), POLLIN, 0},
                      {failed_ ? -1 : events().descriptor(), POLLIN, 0},
                      {manager_ ? manager_->descriptor() : -1, POLLIN, 0}});
      bool more = false;
      for (const Client& client : clients_) {
        watched.push_back(
            {client.socket.number(), static_cast<short>(POLLIN | (client.to_send.empty() ? 0 : POLLOUT)), 0});
        more = more || client.has_more;
      }
      constexpr int kLookEveryMs = 1000;
      const int wait_ms = more ? 0 : Clock::now() < accepts_again_ ? static_cast<int>(kPause.count()) : kLookEveryMs;
      if (::poll(watched.data(), watched.size(), wait_ms) < 0 && errno != EINTR) {
        throw SocketError(fmt::format("poll: {}", std::strerror(errno)));
      }
      if (watched[0].revents != 0) {
        return;
      }
      look_at_events();
      std::size_t i = 4;
      for (auto client = clients_.begin(); i < watched.size(); ++i) {
        if (serve(*client, watched[i].revents)) {
          ++client;
        } else {
          greeted_ -= client->greeted ? 1U : 0U;
          cut_off(*client);
          for (const auto& [number, region] : client->lent) {
            lent_bytes_ -= region.taken;
          }
          client = clients_.erase(client);  // also ends all its connections and memory
        }
      }
      if (watched[3].revents != 0) {
        serve_manager();
      }
      if (watched[1].revents != 0) {
        accept_clients();
      }
    }
  }

  [[nodiscard]] DeviceEvents& events() const noexcept { return node_->port().events(); }

  // Needed even if the device's file is quiet: the fabric's own thread may have read the report.
  void look_at_events() {
    if (failed_ || events().acknowledge() != IBV_EVENT_DEVICE_FATAL) {
      return;
    }
    fail(events().describe(IBV_EVENT_DEVICE_FATAL));
    for (Client& client : clients_) {
      client.connections.clear();
      refuse(client, failure_);
    }
    connections_ = 0;
  }
  // Called once; failure_ does not change afterwards.
  void fail(std::string why) {
    if (!failed_) {
      failure_ = std::move(why);
      failed_ = true;
    }
  }

  void accept_clients() {
    for (;;) {
      FileDescriptor socket(::accept4(listening_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket.valid()) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
          accepts_again_ = Clock::now() + kPause;
        }
        return;
      }
      watch_over(socket);
      Client& client = clients_.emplace_back();
      client.socket = std::move(socket);
      if (failed_) {
        refuse(client, failure_);
      } else if (clients_.size() - greeted_ > kMostStrangers) {
        clients_.pop_back();
      }
    }
  }

  // False: close the client.
  bool serve(Client& client, short events) {
    const bool readable = (events & (POLLIN | POLLHUP | POLLERR)) != 0;
    if (readable && !client.has_more && !receive(client)) {
      return false;
    }
    answer_next(client);
    if (!send(client)) {
      return false;
    }
    const bool silent = !client.greeted && Clock::now() - client.since > kHelloLimit;
    return !silent && !(client.closing && client.to_send.empty()) && client.to_send.size() <= kMostUnread;
  }

  bool receive(Client& client) {
    std::array<std::byte, 16384> more{};
    const ssize_t count = ::recv(client.socket.number(), more.data(), more.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
      return false;
    }
    if (count > 0 && !client.closing) {
      client.received.insert(client.received.end(), more.begin(), more.begin() + count);
    }
    return true;
  }

  // Answers one message at a time: some take long, and a client with many messages must not delay the others.
  void answer_next(Client& client) {
    client.has_more = false;
    if (client.closing) {
      return;
    }
    std::span<const std::byte> bytes = client.received;
    try {
      if (const std::optional<exchange::Message> message = exchange::decode(bytes)) {
        answer(client, *message);
        client.has_more = !bytes.empty();
      }
    } catch (const exchange::ExchangeError& error) {
      refuse(client, error.what());
    }
    client.received.erase(client.received.begin(), client.received.end() - static_cast<std::ptrdiff_t>(bytes.size()));
  }

  static bool send(Client& client) {
    while (!client.to_send.empty()) {
      const ssize_t sent = ::send(client.socket.number(), client.to_send.data(), client.to_send.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
      }
      client.to_send.erase(client.to_send.begin(), client.to_send.begin() + sent);
    }
    return true;
  }

  static void reply(Client& client, const exchange::Message& message) {
    const std::vector<std::byte> bytes = exchange::encode(message);
    client.to_send.insert(client.to_send.end(), bytes.begin(), bytes.end());
  }
  static void refuse(Client& client, std::string why) {
    reply(client, exchange::Refused{std::move(why)});
    client.closing = true;
  }

  void answer(Client& client, const exchange::Message& message) {
    if (const auto* const hello = std::get_if<exchange::Hello>(&message)) {
      if (client.greeted || !same_token(options_.token, hello->token)) {
        refuse(client, client.greeted ? "a second hello" : "the token is not the server's (--token)");
        return;
      }
      if (greeted_ >= options_.most_clients) {
        refuse(client, fmt::format("it has {} clients already (ServerOptions::most_clients)", options_.most_clients));
        return;
      }
      if (!switches_.greet(hello->switch_id)) {
        refuse(client, "another switch has taken the place of this one");
        return;
      }
      client.switch_id = hello->switch_id;
      client.greeted = true;
      ++greeted_;
      ++greeted_so_far_;
      reply(client, welcome_);
    } else if (!client.greeted) {
      refuse(client, "the first message must be a hello");
    } else if (const auto* const connect = std::get_if<exchange::Connect>(&message)) {
      reply(client, accept(client, *connect));
    } else if (const auto* const announce = std::get_if<exchange::Announce>(&message)) {
      reply(client, expect(client, *announce));
    } else if (const auto* const disconnect = std::get_if<exchange::Disconnect>(&message)) {
      if (disconnect->confirm != 0) {
        reply(client,
              with_marks(client, disconnect->marks, [&] { return revoke_connection(client, disconnect->connection); }));
      } else {
        forget_connection(client, disconnect->connection);
      }
    } else if (const auto* const revoke = std::get_if<exchange::Revoke>(&message)) {
      reply(client, with_marks(client, revoke->marks, [&] { return revoke_owner(client, revoke->owner); }));
    } else if (const auto* const wanted = std::get_if<exchange::Allocate>(&message)) {
      reply(client, lend(client, *wanted));
    } else if (const auto* const release = std::get_if<exchange::Release>(&message)) {
      const auto found = client.lent.find(release->region);
      if (found != client.lent.end()) {
        lent_bytes_ -= found->second.taken;
        client.lent.erase(found);
      }
      reply(client, exchange::Released{release->region});
    } else if (const auto* const publish = std::get_if<exchange::Publish>(&message)) {
      reply(client, this->publish(client, *publish));
    } else if (const auto* const find = std::get_if<exchange::Find>(&message)) {
      reply(client, exchange::Found{find_region(find->name).value_or(RemoteSpan{})});
    } else if (std::holds_alternative<exchange::Place>(message)) {
      reply(client, place());
    } else if (std::holds_alternative<exchange::KeepVersions>(message) ||
               std::holds_alternative<exchange::Inherit>(message) || std::holds_alternative<exchange::Move>(message) ||
               std::holds_alternative<exchange::Resume>(message)) {
      reply(client, exchange::Refused{"it is no switch: connect to the exchange of `sidelatch switch --latches`"});
    } else if (std::holds_alternative<exchange::Leave>(message)) {
      for (const auto& [number, connection] : client.connections) {
        note_cut_off(client, connection);
      }
    } else if (std::optional<exchange::Message> answered = answer_switch(client, message)) {
      reply(client, *answered);
    } else {
      refuse(client, "a message that only servers send");
    }
  }

  // What only switches ask. Nothing: it is something else.
  std::optional<exchange::Message> answer_switch(Client& client, const exchange::Message& message) {
    try {
      if (std::holds_alternative<exchange::TakeOver>(message)) {
        require_switch(client);
        return take_over(client);
      }
      if (const auto* const settle = std::get_if<exchange::Settle>(&message)) {
        require_switch(client);
        switches_.settle(settle->owner);
        return exchange::Noted{};
      }
      if (const auto* const read = std::get_if<exchange::ReadWords>(&message)) {
        require_switch(client);
        return exchange::Words{read_own_words(regions_of(client), *read)};
      }
      if (const auto* const write = std::get_if<exchange::WriteWords>(&message)) {
        require_switch(client);
        write_own_words(regions_of(client), *write);
        return exchange::Noted{};
      }
      if (const auto* const epoch = std::get_if<exchange::NoteEpoch>(&message)) {
        require_switch(client);
        notes_.begin(epoch->span, epoch->stride, epoch->value,
                     read_all_own_words(welcome_.regions, epoch->span, epoch->stride, epoch->count));
        return exchange::Noted{};
      }
      if (const auto* const grant = std::get_if<exchange::NoteGrant>(&message)) {
        require_switch(client);
        notes_.grant(grant->span, grant->epoch, grant->version);
        return exchange::Noted{};
      }
      if (const auto* const note = std::get_if<exchange::NoteMarks>(&message)) {
        require_switch(client);
        check_marks(note->marks);
        make_marks(note->marks);
        return exchange::Noted{};
      }
      if (const auto* const heir = std::get_if<exchange::NoteHeir>(&message)) {
        require_switch(client);
        notes_.decide(heir->span, heir->version, {Fate::unknown, heir->owner});
        return exchange::Noted{};
      }
      if (const auto* const asked = std::get_if<exchange::Recall>(&message)) {
        require_switch(client);
        const Recalled recalled = notes_.recall(asked->span, asked->version, asked->owner);
        return exchange::Recalled{static_cast<std::uint8_t>(recalled.fate), recalled.version};
      }
    } catch (const std::exception& error) {
      return exchange::Refused{error.what()};
    }
    return std::nullopt;
  }
  // What the server shares, and what it has lent to clients of this switch.
  [[nodiscard]] std::vector<exchange::SharedRegion> regions_of(const Client& by) const {
    std::vector<exchange::SharedRegion> all = welcome_.regions;
    for (const Client& client : clients_) {
      for (const auto& [number, region] : client.lent) {
        if (client.switch_id == by.switch_id) {
          all.push_back({.name = region.name, .span = region.memory->remote(), .access = region.access});
        }
      }
    }
    return all;
  }
  // Makes them as soon as `end` has ended the connections.
  template <class End>
  exchange::Message with_marks(const Client& client, std::span<const exchange::Mark> marks, End end) {
    try {
      if (!marks.empty()) {
        require_switch(client);
        check_marks(marks);
      }
      exchange::Message answer = end();
      if (std::holds_alternative<exchange::Revoked>(answer)) {
        make_marks(marks);
      }
      return answer;
    } catch (const std::exception& error) {
      return exchange::Refused{error.what()};
    }
  }
  // Whatever make_marks() would refuse, as it comes too late for that: the connections have ended by then.
  void check_marks(std::span<const exchange::Mark> marks) const {
    for (const exchange::Mark& mark : marks) {
      if (!is_in_doubt(mark.version)) {
        throw std::invalid_argument(
            fmt::format("a mark of version {}: a tuple that is held has an odd one", mark.version));
      }
      require_writable_own_words(welcome_.regions, mark.word, mark.word.length, 1);
    }
  }
  // Their connections take no further steps.
  void make_marks(std::span<const exchange::Mark> marks) {
    for (const exchange::Mark& mark : marks) {
      if (mark.in_doubt != 0) {
        write_own_words(welcome_.regions, {mark.word, mark.word.length, 1, mark.version});
      } else {
        notes_.decide(mark.word, mark.version + 1, {Fate::lost, 0});
      }
    }
  }
  static void require_switch(const Client& client) {
    if (client.switch_id == 0) {
      throw std::invalid_argument("only a switch asks this");
    }
  }

  void note_cut_off(const Client& client, const Connection& connection) {
    if (client.switch_id != 0 && !connection.end->revoked()) {
      switches_.cut_off(connection.owner);
    }
  }
  // Ends the client's connections. Clients behind a switch may live on: what was acknowledged to them must be placed
  // before, as a revocation loses it (memory model, rule 10).
  void cut_off(Client& client) {
    bool is_switched = false;
    for (const auto& [number, connection] : client.connections) {
      note_cut_off(client, connection);
      is_switched = is_switched || (client.switch_id != 0 && !connection.end->revoked());
    }
    if (is_switched && !failed_) {
      static_cast<void>(place());
    }
    for (auto& [number, connection] : client.connections) {
      end(connection);
    }
    connections_ -= client.connections.size();
    client.connections.clear();
  }
  // Nobody may take a client for dead whose queue pair goes on.
  void end(Connection& connection) {
    if (connection.end->revoke() || failed_) {
      return;
    }
    fail("the NIC does not end a queue pair of a client that is gone: restart this server");
    for (Client& client : clients_) {
      refuse(client, failure_);
    }
  }
  exchange::Message take_over(const Client& by) {
    for (Client& client : clients_) {
      if (client.switch_id != 0 && client.switch_id != by.switch_id) {
        cut_off(client);
        client.to_send.clear();
        refuse(client, "another switch has taken the place of this one");
      }
    }
    switches_.take_over(by.switch_id);
    exchange::TakenOver taken = switches_.unsettled();
    taken.latest_epoch = notes_.latest();
    return taken;
  }

  exchange::Message place() {
    try {
      own_read_.run();
      return exchange::Placed{};
    } catch (const DeviceError& error) {
      return exchange::Refused{error.what()};
    }
  }

  // The connection stays on record, so that it is refused when the client connects it again.
  exchange::Message revoke_connection(Client& client, std::uint32_t number) {
    return with_record(client, number, 0, [](Connection& connection) -> exchange::Message {
      if (!connection.end->revoke()) {
        return exchange::Refused{"the NIC does not end the queue pair: restart this server"};
      }
      return exchange::Revoked{};
    });
  }

  // The client's end is gone.
  void forget_connection(Client& client, std::uint32_t number) {
    const auto found = client.connections.find(number);
    if (found != client.connections.end()) {
      end(found->second);
      client.connections.erase(found);
      --connections_;
    }
  }

  exchange::Message lend(Client& client, const exchange::Allocate& wanted) {
    const std::uint64_t taken = node_->port().placement().taken_by(wanted.bytes);
    if (wanted.bytes != 0 && (taken == 0 || taken > options_.most_lent_bytes - lent_bytes_)) {
      return exchange::Refused{
          fmt::format("it lends {} bytes, {} of them are lent, and {} were asked for, which take {} in whole pages "
                      "(ServerOptions::most_lent_bytes)",
                      options_.most_lent_bytes, lent_bytes_, wanted.bytes, taken == 0 ? wanted.bytes : taken)};
    }
    if (wanted.bytes == 0 || client.lent.contains(wanted.region)) {
      return exchange::Refused{"a region of 0 bytes, or one that this client has already"};
    }
    try {
      const auto& region =
          client.lent
              .emplace(
                  wanted.region,
                  LentRegion{
                      std::make_unique<VerbsNode::Lent>(*node_, wanted.bytes, wanted.access), taken, {}, wanted.access})
              .first->second;
      lent_bytes_ += taken;
      return exchange::Allocated{wanted.region, region.memory->remote()};
    } catch (const std::exception& error) {
      return exchange::Refused{error.what()};
    }
  }

  exchange::Message publish(Client& client, const exchange::Publish& publish) {
    const auto found = client.lent.find(publish.region);
    if (found == client.lent.end() || !found->second.name.empty() || !is_name(publish.name)) {
      return exchange::Refused{fmt::format("it cannot publish '{}': no such region, or a wrong name", publish.name)};
    }
    if (find_region(publish.name)) {
      return exchange::Refused{fmt::format("the name '{}' is used already", publish.name)};
    }
    found->second.name = publish.name;
    return exchange::Published{publish.region};
  }

  [[nodiscard]] std::optional<RemoteSpan> find_region(std::string_view name) const {
    const auto shared = std::ranges::find(welcome_.regions, name, &exchange::SharedRegion::name);
    if (shared != welcome_.regions.end()) {
      return shared->span;
    }
    for (const Client& client : clients_) {
      for (const auto& [number, region] : client.lent) {
        if (!name.empty() && region.name == name) {
          return region.memory->remote();
        }
      }
    }
    return std::nullopt;
  }

  exchange::Message accept(Client& client, const exchange::Connect& connect) {
    if (node_->port().connections().through == Through::connection_manager) {
      return exchange::Refused{"it takes connections through the connection manager only (ConnectionOptions::through)"};
    }
    return with_connection(client, connect.connection, connect.owner, [&](Connection& connection) -> exchange::Message {
      return exchange::Accepted{connect.connection, connection.end->accept(connect.address)};
    });
  }

  exchange::Message expect(Client& client, const exchange::Announce& announce) {
    if (!manager_) {
      return exchange::Refused{"it has no connection manager: " + welcome_.no_manager};
    }
    return with_connection(client, announce.connection, announce.owner,
                           [&](Connection& connection) -> exchange::Message {
                             manager_->forget(connection.end->queue_pair());
                             connection.ticket = secret_number();  // who presents it got it over TCP
                             return exchange::Ticket{announce.connection, connection.ticket};
                           });
  }

  // Returns the answer of `use` for the client's connection, which is made if it does not exist, or a refusal.
  template <class Use>
  exchange::Message with_connection(Client& client, std::uint32_t number, std::uint16_t owner, Use use) {
    return with_record(client, number, owner, [&](Connection& connection) -> exchange::Message {
      if (connection.end->revoked()) {
        return exchange::Refused{"the connection was revoked: make a new one"};
      }
      // The revocation of the other owner would not end it.
      if (connection.owner != owner) {
        return exchange::Refused{exchange::other_owner_text(number, connection.owner, owner)};
      }
      try {
        return use(connection);
      } catch (const std::exception& error) {
        forget_connection(client, number);
        return exchange::Refused{error.what()};
      }
    });
  }

  // The same, also for a connection that was revoked.
  template <class Use>
  exchange::Message with_record(Client& client, std::uint32_t number, std::uint16_t owner, Use use) {
    auto found = client.connections.find(number);
    if (found == client.connections.end()) {
      if (connections_ >= options_.most_connections) {
        return exchange::Refused{
            fmt::format("it has {} connections already (ServerOptions::most_connections)", connections_)};
      }
      if (revoked_owners_.contains(owner)) {
        return exchange::Refused{fmt::format("owner {} was revoked: a client that comes back takes a new id", owner)};
      }
      if (owner != 0) {
        owners_.insert(owner);
      }
      auto end = std::make_unique<PassiveEnd>(node_->port(), node_->domain(), node_->passive_completions());
      found = client.connections.emplace(number, Connection{owner, std::move(end)}).first;
      ++connections_;
    }
    return use(found->second);
  }

  // Records in Welcome where the connection manager listens, or why it does not.
  void offer_manager() {
    const Through through = node_->port().connections().through;
    if (through == Through::exchange) {
      welcome_.no_manager = "its ConnectionOptions::through is exchange";
      return;
    }
    try {
      manager_.emplace(node_->port(), bound_to(listening_));
      welcome_.manager = manager_->at();
    } catch (const ManagerError& error) {
      if (through == Through::connection_manager) {
        throw;
      }
      welcome_.no_manager = error.what();
    }
  }

  void serve_manager() {
    try {
      manager_->serve([this](std::uint64_t ticket) -> ibv_qp& { return end_for(ticket); });
    } catch (const ManagerError& error) {
      // Connected clients continue; new clients are told.
      manager_.reset();
      welcome_.manager = {};
      welcome_.no_manager = error.what();
    }
  }

  // A ticket can be used once.
  ibv_qp& end_for(std::uint64_t ticket) {
    for (Client& client : clients_) {
      for (auto& [number, connection] : client.connections) {
        if (ticket != 0 && connection.ticket == ticket) {
          connection.ticket = 0;
          if (connection.end->revoked()) {
            throw ManagerError("the connection was revoked: make a new one");
          }
          return connection.end->queue_pair();
        }
      }
    }
    throw ManagerError("no connection waits for this ticket");
  }

  // Also refuses unknown owners: a client that takes over a latch relies on its holder's connections being gone.
  exchange::Message revoke_owner(const Client& by, std::uint16_t owner) {
    if (!owners_.contains(owner)) {
      return exchange::Refused{
          fmt::format("owner {} has never connected here, so nothing keeps its late writes out: every client with an "
                      "owner id gives it as RemoteOptions::owner",
                      owner),
          exchange::Refused::kUnknownOwner};
    }
    // A switch that is not told goes on acknowledging what the end of the queue pair then loses (memory model, rule
    // 10).
    for (const Client& client : clients_) {
      const bool passes_another_switch = client.switch_id != 0 && client.switch_id != by.switch_id;
      if (passes_another_switch && std::ranges::any_of(client.connections, [&](const auto& one) {
            return one.second.owner == owner && !one.second.end->revoked();
          })) {
        return exchange::Refused{
            fmt::format("owner {} has connections through a switch, which has to fence them first: revoke it through a "
                        "RemoteNode of that switch's exchange (--latches)",
                        owner)};
      }
    }
    revoked_owners_.insert(owner);
    for (Client& client : clients_) {
      for (auto& [number, connection] : client.connections) {
        if (connection.owner == owner && !connection.end->revoke()) {
          return exchange::Refused{
              fmt::format("the NIC does not end a queue pair of owner {}: restart this server", owner)};
        }
      }
    }
    return exchange::Revoked{owner};
  }

  VerbsNode* node_;
  ServerOptions options_;
  OwnRead own_read_;
  SwitchClients switches_;
  EpochNotes notes_;
  HostAndPort at_;
  FileDescriptor listening_;
  FileDescriptor wake_;
  exchange::Welcome welcome_;
  std::optional<ConnectionListener> manager_;
  std::list<Client> clients_;
  std::set<std::uint16_t> owners_;
  std::set<std::uint16_t> revoked_owners_;
  std::size_t connections_ = 0;
  std::uint64_t lent_bytes_ = 0;
  Clock::time_point accepts_again_{};  // set when no descriptors were left
  std::atomic<std::uint32_t> greeted_{0};
  std::atomic<std::uint64_t> greeted_so_far_{0};
  std::string failure_;  // other threads may read it once failed_ is set
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

MemoryServer::MemoryServer(Node& node, const ServerOptions& options) {
  auto* const verbs_node = dynamic_cast<VerbsNode*>(&node);
  if (verbs_node == nullptr) {
    throw std::invalid_argument(fmt::format("node {} was not made by VerbsFabric::add_node", node.name()));
  }
  loop_ = std::make_unique<Loop>(*verbs_node, options);
}

MemoryServer::~MemoryServer() = default;

void MemoryServer::share(std::string_view name, const MemoryRegion& region) { loop_->share(name, region); }
void MemoryServer::start() { loop_->start(); }
std::string MemoryServer::address() const { return loop_->at().to_string(); }
std::uint32_t MemoryServer::clients() const noexcept { return loop_->clients(); }
std::uint64_t MemoryServer::clients_so_far() const noexcept { return loop_->clients_so_far(); }
std::string MemoryServer::failure() const { return loop_->failure(); }

}  // namespace sidelatch::fabric::verbs
