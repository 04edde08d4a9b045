// ConnectionService: the connection manager of this process: queue pair 1, a thread for its messages and timers, the
// ports of the wire, and the identifiers and event channels of librdmacm.
//
//   ConnectionService& service = ConnectionService::of_process();       // made if there is none yet; throws
//   service.call([&](cm::RdmaIds& ids, cm::Time now) { ids.connect(...); });
//
// Once made, it stays until the process ends, and with it the NIC on the wire: the other side of a connection that was
// closed may still ask. At exit(), after all destructors, it tells the other sides of all connections, and waits up to
// 0.2 s for their answers. The process's own channels get no events any more then.
// After fork() the child has no service; inherited event channels refuse everything with EIO.
//
// Thread-safety: any thread may call anything. A function passed to call() runs under the service's lock, which is
// taken before the NIC's.
#pragma once

#include "event_channels.h"
#include "process_nic.h"

#include "softnic/cm/rdma_ids.h"
#include "softnic/port_registry.h"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::softnic::verbs {

class ConnectionService final : public cm::Surroundings {
 public:
  [[nodiscard]] static ConnectionService& of_process();
  /// Nullptr if it was not made.
  [[nodiscard]] static ConnectionService* if_made() noexcept;
  /// Whether the calling process is a child by vfork(): it shares the memory, but its descriptors are copies.
  [[nodiscard]] static bool is_borrowed() noexcept;

  explicit ConnectionService(std::shared_ptr<ProcessNic> nic);
  ConnectionService(const ConnectionService&) = delete;
  ConnectionService& operator=(const ConnectionService&) = delete;
  ~ConnectionService() override = default;

  [[nodiscard]] const ProcessNic& nic() const noexcept { return *nic_; }

  /// Also sends what the call has caused, and signals event channels.
  template <class Use>
  auto call(Use use) {
    const std::unique_lock lock(mutex_);
    const Ending ending(*this);
    return use(ids_, now());
  }

  [[nodiscard]] int open_channel(int flags);
  /// The caller closes the descriptor afterwards.
  void close_channel(int descriptor);
  /// Throws VerbsError (EIO) if it is a parent's.
  [[nodiscard]] cm::ChannelNumber channel_of(int descriptor);
  /// The next event of the channel. Nothing: there is none yet; call waiter->wait() and come again. The first call,
  /// with an empty `waiter`, sets it, so that later ones know the channel although its descriptor was closed meanwhile.
  [[nodiscard]] std::optional<cm::IdEvent> take_event(int descriptor, std::optional<EventChannels::Waiter>& waiter);

  // cm::Surroundings, under the lock.
  [[nodiscard]] const std::vector<roce::Gid>& gids() const override;
  [[nodiscard]] bool is_of_machine(const cm::SocketAddress& address) const override;
  [[nodiscard]] bool reaches(const roce::Gid& gid) override;
  [[nodiscard]] std::optional<std::uint64_t> occupant(const roce::Gid& gid) override;
  [[nodiscard]] std::uint16_t take_port(cm::PortSpace space, const cm::SocketAddress& address, cm::PortSharing sharing,
                                        std::uint64_t owner) override;
  void share_port(std::uint64_t owner, cm::PortSharing sharing) override;
  void open_port(std::uint64_t owner) override;
  void give_port(std::uint64_t owner) noexcept override;
  [[nodiscard]] std::optional<roce::Gid> station_at(cm::PortSpace space, const cm::SocketAddress& address) override;

 private:
  static constexpr std::size_t kBuffers = 128;
  static constexpr std::size_t kMostArrivals = 4096;  // later ones are dropped, as by a NIC without receives
  static constexpr std::size_t kBufferBytes = 40 + cm::kMadBytes;

  // The end of a call.
  class Ending {
   public:
    explicit Ending(ConnectionService& service) : service_(service) {}
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    ~Ending() { service_.finish(); }

   private:
    ConnectionService& service_;
  };
  struct Arrival {
    cm::Route route;
    cm::Mad mad;
  };

  [[nodiscard]] static cm::Time now() noexcept;
  static void watch_process();
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;
  void say_farewell() noexcept;
  void take_arrivals();

  void make_queue_pair(nic::Nic& nic);
  void destroy_queue_pair(nic::Nic& nic);
  void post_receive(std::uint64_t buffer);
  void hear();
  void finish() noexcept;
  [[nodiscard]] bool send(const cm::Outgoing& outgoing);
  void run();

  std::shared_ptr<ProcessNic> nic_;
  PortRegistry ports_;
  std::mutex mutex_;
  cm::RdmaIds ids_;
  std::deque<cm::Outgoing> unsent_;  // what the queue pair had no room for
  EventChannels channels_;
  std::map<cm::ChannelNumber, int> descriptors_;
  std::map<cm::ChannelNumber, std::thread::id> last_takers_;  // who took the last event
  bool is_leaving_ = false;                                   // the process exits

  // Under the NIC's lock.
  nic::Domain domain_ = 0;
  std::uint32_t key_ = 0;
  nic::CompletionQueue* completions_ = nullptr;
  nic::QueuePair* pair_ = nullptr;
  std::vector<std::byte> buffers_;

  // What arrived, for the thread. This lock is taken last.
  std::mutex inbox_mutex_;
  std::condition_variable inbox_changed_;
  std::vector<Arrival> inbox_;
  bool has_new_deadline_ = false;
};

}  // namespace sidelatch::softnic::verbs
