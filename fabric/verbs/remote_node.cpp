#include "remote_node.h"

#include "connection_manager.h"
#include "errands.h"
#include "pair.h"
#include "socket.h"

#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace sidelatch::fabric::verbs {

namespace {

// Failures of the way to the other end, as FabricError.
template <class Work>
auto explained(Work work) {
  try {
    return work();
  } catch (const ConversationEnded& error) {
    throw FabricError(Status::disconnected, error.what());
  } catch (const SocketError& error) {
    throw FabricError(Status::retry_exceeded, error.what());
  } catch (const ManagerError& error) {
    throw FabricError(Status::retry_exceeded, error.what());
  }
}

// The longest limit that poll(2) and every clock can count.
constexpr std::chrono::milliseconds kLongestLimit = std::chrono::hours(24);

RemoteOptions checked(const RemoteOptions& options) {
  if (options.limit < std::chrono::milliseconds(1) || options.limit > kLongestLimit) {
    throw std::invalid_argument(fmt::format("RemoteOptions::limit is {} ms: it must be 1 to {} (24 hours)",
                                            options.limit.count(), kLongestLimit.count()));
  }
  return options;
}

}  // namespace

struct RemoteNode::Parts {
  Parts(VerbsFabric& the_fabric, std::string_view address, const RemoteOptions& the_options)
      : fabric(&the_fabric),
        options(checked(the_options)),
        server(HostAndPort::parse(address, kDefaultPort)),
        conversation(server, options.limit),
        errands(reactor_of(the_fabric).mailbox(), [this] { conversation.interrupt(); }) {}

  // The answer of the type that belongs to the question; the calling thread waits. Throws SocketError for another
  // answer.
  template <class Answer>
  Answer ask(const exchange::Message& question) {
    std::optional<Answer> answer;
    errands.run([&] { answer = ask_now<Answer>(question); });
    return *std::move(answer);
  }

  // The same, within an errand.
  template <class Answer>
  Answer ask_now(const exchange::Message& question) {
    return conversation.ask_for<Answer>(question, server.to_string());
  }

  // While the errands wait for the connection manager, too, they can be interrupted.
  [[nodiscard]] Patience patience() const noexcept { return {options.limit, conversation.descriptor()}; }

  // Chooses the way to connect from what both sides support. The choice is final: if a later attempt fails, that is an
  // error and no reason to try the other way.
  void choose_way() {
    const Port& port = port_of(*fabric);
    const Through wanted = port.connections().through;
    if (wanted == Through::exchange) {
      why_exchange = "this fabric's ConnectionOptions::through is exchange";
      return;
    }
    try {
      if (welcome.manager.port == 0) {
        throw ManagerError(fmt::format("the server has no connection manager: {}", welcome.no_manager));
      }
      require_manager_route(port, welcome.manager, patience());
      through = Through::connection_manager;
    } catch (const ManagerError& error) {
      if (wanted == Through::connection_manager) {
        throw ManagerError(
            fmt::format("{} cannot be reached through the connection manager, which "
                        "ConnectionOptions::through demands: {}",
                        server.to_string(), error.what()));
      }
      why_exchange = error.what();
    }
  }

  VerbsFabric* fabric;
  RemoteOptions options;
  HostAndPort server;
  Conversation conversation;  // used by errands only, once there are some
  exchange::Welcome welcome;
  Through through = Through::exchange;
  std::string why_exchange;
  const RemoteNode* node = nullptr;  // null when the node is gone
  std::uint32_t next_connection = 1;
  std::uint32_t next_region = 1;
  Errands errands;  // ends first: they use the rest
};

namespace {

template <class Parts>
class RemotePeer final : public Peer {
 public:
  explicit RemotePeer(std::shared_ptr<Parts> parts) : parts_(std::move(parts)), number_(parts_->next_connection++) {}
  RemotePeer(const RemotePeer&) = delete;
  RemotePeer& operator=(const RemotePeer&) = delete;
  ~RemotePeer() override {
    try {
      parts_->errands.post([parts = parts_.get(), number = number_] {
        parts->conversation.tell(exchange::Disconnect{number, 0});
      });
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the server is gone, and the connection with it
    }
  }
  std::uint32_t connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding) override {
    if (parts_->through == Through::exchange) {
      return Peer::connect(port, queue_pair, outstanding);
    }
    return explained([&] {
      const auto ticket = parts_->template ask<exchange::Ticket>(exchange::Announce{number_, parts_->options.owner});
      return connect_through_manager(port, queue_pair, parts_->welcome.manager, ticket.ticket, outstanding,
                                     parts_->patience());
    });
  }
  [[nodiscard]] Peer::Steps start_connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding) override {
    return parts_->through == Through::exchange ? start_exchange(port, queue_pair, outstanding)
                                                : start_manager(port, queue_pair, outstanding);
  }
  Address accept(const Address& initiator) override {
    return explained([&] {
      return parts_->template ask<exchange::Accepted>(exchange::Connect{number_, parts_->options.owner, initiator})
          .address;
    });
  }
  void revoke() override {
    explained([&] { static_cast<void>(parts_->template ask<exchange::Revoked>(exchange::Disconnect{number_, 1})); });
  }
  [[nodiscard]] bool inherit(const RemoteSpan& tuple) override {
    return explained([&] {
      return parts_->template ask<exchange::Inherited>(exchange::Inherit{number_, tuple}).done != 0;
    });
  }
  [[nodiscard]] std::uint8_t resume(const RemoteSpan& tuple, std::uint64_t version) override {
    return explained([&] {
      return parts_->template ask<exchange::Resumed>(exchange::Resume{number_, tuple, version}).resumption;
    });
  }
  [[nodiscard]] bool belongs_to(const Node& node) const noexcept override { return &node == parts_->node; }

 private:
  // The errands use the Parts without owning them: the Parts wait for their end.
  Peer::Steps start_exchange(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding) {
    const Address own = port.address_of(queue_pair, random_packet_number());
    const auto other = std::make_shared<Address>();
    std::shared_ptr<Errand> answer = parts_->errands.start([parts = parts_.get(), number = number_, own, other] {
      explained([&] {
        *other =
            parts->template ask_now<exchange::Accepted>(exchange::Connect{number, parts->options.owner, own}).address;
      });
    });
    return {std::move(answer), [&port, &queue_pair, own, other, outstanding] {
              return port.connect(queue_pair, own, *other, outstanding);
            }};
  }
  Peer::Steps start_manager(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding) {
    const auto attempt = std::make_shared<std::optional<ManagerConnect>>();
    const std::uint32_t queue_pair_number = queue_pair.qp_num;
    std::shared_ptr<Errand> answer = parts_->errands.start([parts = parts_.get(), number = number_, &port, attempt,
                                                            queue_pair_number, outstanding] {
      explained([&] {
        const auto ticket = parts->template ask_now<exchange::Ticket>(exchange::Announce{number, parts->options.owner});
        attempt->emplace(port, parts->welcome.manager, parts->patience());
        (*attempt)->ask(queue_pair_number, ticket.ticket, outstanding);
      });
    });
    return {std::move(answer), [&queue_pair, attempt] {
              std::uint32_t initiated = 0;
              explained([&] { initiated = (*attempt)->finish(queue_pair); });
              return initiated;
            }};
  }

  std::shared_ptr<Parts> parts_;
  std::uint32_t number_;
};

}  // namespace

RemoteNode::RemoteNode(VerbsFabric& fabric, std::string_view address, const RemoteOptions& options)
    : Node(std::string(address)), parts_(std::make_shared<Parts>(fabric, address, options)) {
  parts_->welcome = parts_->ask<exchange::Welcome>(exchange::Hello{options.token});
  parts_->choose_way();
  parts_->node = this;
}

RemoteNode::~RemoteNode() { parts_->node = nullptr; }

Reactor& RemoteNode::reactor() { return parts_->fabric->reactor(); }

Through RemoteNode::through() const noexcept { return parts_->through; }
const std::string& RemoteNode::why_exchange() const noexcept { return parts_->why_exchange; }

RemoteSpan RemoteNode::region(std::string_view name) const {
  const std::optional<RemoteSpan> found = find_region(name);
  if (!found) {
    std::string names;
    for (const exchange::SharedRegion& region : parts_->welcome.regions) {
      names += (names.empty() ? "" : ", ") + region.name;
    }
    throw std::out_of_range(fmt::format("{} shares no region '{}': it has {}", parts_->server.to_string(), name,
                                        names.empty() ? "none" : names));
  }
  return *found;
}

std::optional<RemoteSpan> RemoteNode::find_region(std::string_view name) const {
  const auto& regions = parts_->welcome.regions;
  const auto shared = std::ranges::find(regions, name, &exchange::SharedRegion::name);
  if (shared != regions.end()) {
    return shared->span;
  }
  const RemoteSpan published = parts_->ask<exchange::Found>(exchange::Find{std::string(name)}).span;
  return published.length == 0 ? std::nullopt : std::optional(published);
}

void RemoteNode::publish(std::string_view name, const MemoryRegion& region) {
  const Registration* const registration = find(region.lkey());
  if (registration == nullptr || registration->rkey != region.rkey()) {
    throw std::invalid_argument(
        fmt::format("publish: '{}' is to name a region that is not one of {}'s", name, parts_->server.to_string()));
  }
  static_cast<void>(parts_->ask<exchange::Published>(exchange::Publish{registration->nic_lkey, std::string(name)}));
}

void RemoteNode::keep_versions(const RemoteSpan& memory, std::uint64_t count, std::uint64_t tuple_bytes,
                               std::uint64_t slot_bytes) {
  static_cast<void>(
      parts_->ask<exchange::VersionsKept>(exchange::KeepVersions{memory, count, tuple_bytes, slot_bytes}));
}

bool RemoteNode::inherit(QueuePair& queue_pair, const RemoteSpan& tuple) {
  return peer_of(*this, queue_pair, "inherit").inherit(tuple);
}

void RemoteNode::make_hot(const RemoteSpan& tuple) {
  static_cast<void>(parts_->ask<exchange::Noted>(exchange::Move{tuple, 1}));
}
void RemoteNode::make_cold(const RemoteSpan& tuple) {
  static_cast<void>(parts_->ask<exchange::Noted>(exchange::Move{tuple, 0}));
}

Resumption RemoteNode::resume(QueuePair& queue_pair, const RemoteSpan& tuple, std::uint64_t version) {
  const std::uint8_t resumption = peer_of(*this, queue_pair, "resume").resume(tuple, version);
  if (resumption > static_cast<std::uint8_t>(Resumption::lost)) {
    throw SocketError(fmt::format("{} answers something else than was asked", parts_->server.to_string()));
  }
  return static_cast<Resumption>(resumption);
}

void RemoteNode::settled() { static_cast<void>(parts_->ask<exchange::Noted>(exchange::Settle{parts_->options.owner})); }

std::unique_ptr<QueuePair> RemoteNode::connect(Node& /*target*/, const QueuePairOptions& /*options*/) {
  throw std::logic_error(fmt::format(
      "node {} is in another process: connect from a node of this one, as in client.connect(remote)", name()));
}

void RemoteNode::revoke(QueuePair& queue_pair) { revoke_connection(*this, queue_pair); }

void RemoteNode::revoke_owner(std::uint16_t owner) {
  static_cast<void>(parts_->ask<exchange::Revoked>(exchange::Revoke{owner}));
}

Task<void> RemoteNode::revoke_all_of(std::uint16_t owner) {
  const auto refusal = std::make_shared<std::string>();
  const std::shared_ptr<Errand> answer = parts_->errands.start([parts = parts_.get(), owner, refusal] {
    explained([&] {
      try {
        static_cast<void>(parts->ask_now<exchange::Revoked>(exchange::Revoke{owner}));
      } catch (const Refusal& refused) {
        if (refused.code() != exchange::Refused::kUnknownOwner) {
          throw FabricError(Status::device_failure, refused.what());  // its connections may still work
        }
        *refusal = refused.what();
      }
    });
  });
  // The node may be destroyed while this waits.
  co_await reactor_of(*parts_->fabric).wait_for(answer);
  if (!refusal->empty()) {
    throw std::invalid_argument(*refusal);
  }
}

// The server owns the memory.
std::byte* RemoteNode::obtain_memory(std::uint64_t /*bytes*/) { return nullptr; }
void RemoteNode::return_memory(std::byte* /*memory*/, std::uint64_t /*bytes*/) noexcept {}

void RemoteNode::place_region(Registration& registration) {
  if (!registration.owned) {
    throw std::logic_error(
        fmt::format("node {} is in another process: memory of this one cannot be registered there", name()));
  }
  const std::uint32_t number = parts_->next_region++;
  RemoteSpan span;
  try {
    span = parts_->ask<exchange::Allocated>(exchange::Allocate{number, registration.length, registration.access}).span;
  } catch (const Refusal& refusal) {
    throw DeviceError(refusal.what());
  }
  registration.address = span.address;
  registration.rkey = span.rkey;
  registration.nic_lkey = number;
}

void RemoteNode::region_removed(Registration& registration, bool /*in_use*/) noexcept {
  try {
    static_cast<void>(parts_->ask<exchange::Released>(exchange::Release{registration.nic_lkey}));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the server is gone, and its memory with it
  }
}

std::unique_ptr<Peer> remote_peer(RemoteNode& node) { return node.make_peer(); }

std::unique_ptr<Peer> RemoteNode::make_peer() { return std::make_unique<RemotePeer<Parts>>(parts_); }

}  // namespace sidelatch::fabric::verbs
