// Brings up queue pairs through librdmacm. The connection manager finds device, route and path, and carries each end's
// queue pair and packet numbers to the other end. Port makes the queue pairs, and this file applies the connection
// manager's values to them.
//
//   server                                                        client
//   ConnectionListener listens on its device's address;
//   Welcome says where (TCP)                                 ->   require_manager_route(): does it lead through my
//   device?
//                                                            <-   Announce (TCP): connection 7 is about to come
//   Ticket (TCP): a number that cannot be guessed            ->   connect_through_manager()
//   serve(): finds connection 7 by its ticket, accepts       <->  private data: magic, version, MTU, ticket
//
// An identifier of the connection manager lives only until its connection is up. The conversation over TCP decides how
// long the connection itself lives, as for connections made by the exchange.
//
// Private data is not trusted: magic, version and ranges are checked, and unknown tickets are ignored. Every wait has a
// limit. Errors are ManagerError, which says what was tried, what went wrong, and what to do.
#pragma once

#include "exchange.h"

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::fabric::verbs {

class ManagerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CloseChannel {
  void operator()(rdma_event_channel* channel) const noexcept { rdma_destroy_event_channel(channel); }
};
using ManagerChannel = std::unique_ptr<rdma_event_channel, CloseChannel>;
using ManagerId = std::unique_ptr<rdma_cm_id, Destroy<rdma_cm_id, rdma_destroy_id>>;

/// The private data of a request and of its answer, little-endian: "SLcm" | version u16 | mtu u8 | ticket u64. The
/// connection manager fills the rest with zeros.
struct Introduction {
  std::uint8_t mtu = 0;  ///< ibv_mtu: the largest MTU of this end
  std::uint64_t ticket = 0;
};
[[nodiscard]] std::vector<std::byte> encode(const Introduction& introduction);
/// Throws ManagerError that says what is wrong.
[[nodiscard]] Introduction decode_introduction(std::span<const std::byte> private_data);
/// The private data of a refusal: "SLcm" | version u16 | text.
[[nodiscard]] std::vector<std::byte> encode_refusal(std::string_view why);
/// The text of a refusal; empty if the data is no refusal of a server.
[[nodiscard]] std::string decode_refusal(std::span<const std::byte> private_data);

/// The server's side. Belongs to one thread.
class ConnectionListener {
 public:
  /// Listens on the address of the port's GID. InfiniBand's GIDs hold no address; there it listens on the address that
  /// `tcp` is bound to.
  ConnectionListener(const Port& port, const sockaddr_storage& tcp);

  [[nodiscard]] const exchange::ManagerAddress& at() const noexcept { return at_; }
  /// Readable when there is something to serve.
  [[nodiscard]] int descriptor() const noexcept { return channel_->fd; }
  /// Handles all pending events. `end_for` returns the queue pair that waits for a ticket, or throws; the client gets
  /// the exception's text. Throws ManagerError if the connection manager itself fails: no events will come any more.
  void serve(const std::function<ibv_qp&(std::uint64_t ticket)>& end_for);
  /// Makes the connection manager forget the connection of `queue_pair`; otherwise it would refuse a new one as a
  /// duplicate.
  void forget(const ibv_qp& queue_pair) noexcept;

 private:
  struct Accepted {
    ManagerId id;
    std::uint32_t queue_pair = 0;
  };

  const Port* port_;
  ManagerChannel channel_;
  ManagerId listening_;
  exchange::ManagerAddress at_;
  std::map<rdma_cm_id*, Accepted> accepted_;  // until the client confirms the connection
};

/// How long a client waits for the connection manager.
struct Patience {
  std::chrono::milliseconds limit{};
  int lifeline = -1;  ///< a socket; the waiting ends when its other side hangs up, or it is shut down. -1: none
};

/// Throws ManagerError if `to` cannot be reached through this port.
void require_manager_route(const Port& port, const exchange::ManagerAddress& to, Patience patience);
/// Throws ManagerError that names both if `id` is not bound to the device and port of `port`.
void require_same_device(const Port& port, const rdma_cm_id& id);

/// connect_through_manager() in two steps: the first waits for the server, in any thread, and the second does not wait.
class ManagerConnect {
 public:
  /// Both throw ManagerError.
  ManagerConnect(const Port& port, const exchange::ManagerAddress& to, Patience patience);
  ManagerConnect(const ManagerConnect&) = delete;
  ManagerConnect& operator=(const ManagerConnect&) = delete;
  ~ManagerConnect();
  void ask(std::uint32_t queue_pair, std::uint64_t ticket, std::uint32_t outstanding);
  /// Makes the queue pair ready; returns how many READs and atomics it may have in flight. Throws DeviceError, too.
  std::uint32_t finish(ibv_qp& queue_pair);

 private:
  class Attempt;
  std::unique_ptr<Attempt> attempt_;
};

/// Makes `queue_pair`, whatever its state, ready and connected to the end that waits for `ticket`. `outstanding`: READs
/// and atomics that it may have in flight; returns how many the server allows. Throws ManagerError and DeviceError.
std::uint32_t connect_through_manager(const Port& port, ibv_qp& queue_pair, const exchange::ManagerAddress& to,
                                      std::uint64_t ticket, std::uint32_t outstanding, Patience patience);

}  // namespace sidelatch::fabric::verbs
