// QueuePairCore: the shared part of the halves of a queue pair (requester, responder, datagrams): its attributes,
// queues and completions.
//
// Thread-safety: none.
#pragma once

#include "attributes.h"
#include "completion_queue.h"
#include "device.h"
#include "path.h"
#include "receive_queue.h"
#include "send_queue.h"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace sidelatch::softnic::nic {

struct QueuePairOptions {
  QueuePairType type = QueuePairType::rc;
  Domain domain = 0;
  CompletionQueue* send_completions = nullptr;
  CompletionQueue* receive_completions = nullptr;
  ReceiveQueue* shared_receives = nullptr;  ///< replaces the queue pair's own receive queue
  std::uint32_t send_depth = 1;
  std::uint32_t receive_depth = 1;
  std::uint32_t most_send_sges = 1;
  std::uint32_t most_receive_sges = 1;
  std::uint32_t most_inline = 0;
  bool signal_all = false;  ///< every request is signaled
  /// Entries of the send queue and of the own receive queue are free when completions are polled, not when they are
  /// added: as libraries of real NICs do it.
  bool holds_until_polled = false;
  std::uint32_t xrc_domain = 0;  ///< XRC targets
  std::uint32_t number = 0;      ///< 24 bits, not in use; 0: the NIC chooses
};

/// Where a received message goes. Of an XRC target each message names its shared receive queue, which has a completion
/// queue and a domain of its own (A14).
struct Inbox {
  ReceiveQueue* receives = nullptr;
  CompletionQueue* completions = nullptr;
  Domain domain = 0;          ///< of the R_Keys
  Domain receive_domain = 0;  ///< of the L_Keys in receive requests: that of a shared receive queue (10.2.9)
};

class QueuePairCore {
 public:
  QueuePairCore(Device& its_device, QueuePair& its_owner, const QueuePairOptions& given, std::uint32_t its_number);

  Device& device;
  QueuePair& owner;
  const QueuePairOptions options;
  const std::uint32_t number;
  const Service service;
  QueuePairAttributes attributes;
  Path path;  ///< RC, from RTR on
  SendQueue sends;
  ReceiveQueue own_receives;
  ReceiveQueue& receives;           ///< the own or the shared queue
  Inbox inbox;                      ///< of the message that is being received
  const std::byte* gone = nullptr;  ///< a page that its requests needed and that is gone, for explain()

  [[nodiscard]] QueuePairState state() const noexcept { return attributes.state; }
  /// Whether incoming packets are handled.
  [[nodiscard]] bool receives_packets() const noexcept {
    return state() >= QueuePairState::rtr && state() <= QueuePairState::sqe;
  }
  /// Enters ERROR at once; requests are flushed when the current call ends. `why`: see explain().
  template <class Why>
  void enter_error(Why why) {
    attributes.state = QueuePairState::error;
    explain("enters ERROR", why);
  }
  /// The same for SQE, if the queue pair is in RTS, or drains (IBTA 10.3.1.6).
  template <class Why>
  void enter_send_error(Why why) {
    if (state() == QueuePairState::rts || state() == QueuePairState::sqd) {
      attributes.state = QueuePairState::sqe;
      explain("enters SQE", why);
    }
  }
  /// `why` returns a text, and is only called if somebody wants to know.
  template <class Why>
  void explain(std::string_view what, Why why) {
    if (device.explains) {
      note(what, why());
    }
  }

  /// Completes a send request: adds a completion if it is signaled or failed.
  void complete_send(const SendEntry& entry, CompletionStatus status);
  /// Takes the oldest receive request into `into`; false if there is none.
  [[nodiscard]] bool take_receive(ReceiveBuffer& into);
  /// XRC: sets the inbox to that of this shared receive queue; false if there is none in the domain.
  [[nodiscard]] bool find_inbox(std::uint32_t srq);
  /// Places bytes at `offset` of a receive buffer, whose length has been checked. Returns false and places nothing if
  /// the buffer may not be written; false also if a page of it is gone.
  [[nodiscard]] bool place_received(const ReceiveBuffer& buffer, std::uint64_t offset, std::span<const std::byte> bytes,
                                    std::uint64_t message);
  /// Reports a received message after earlier ones, once everything placed before is in memory.
  void complete_receive(const Completion& completion, bool is_solicited, std::uint64_t message);
  /// Reports a receive request that failed or was flushed, after earlier ones.
  void fail_receive(std::uint64_t id, CompletionStatus status);
  /// The bytes of this message could not be placed, after it has come: it is reported with `status`, and later messages
  /// as flushed. False if it does not wait to be reported.
  [[nodiscard]] bool fail_pending_receive(std::uint64_t message, CompletionStatus status);
  /// Reports the messages that can be reported now.
  void poll_receives();
  [[nodiscard]] bool has_pending_receives() const noexcept { return !pending_.empty(); }
  /// For messages that were not reported yet, when their memory operations have ended: forgets them, or reports them as
  /// flushed, unless they have failed already.
  void forget_pending_receives() noexcept;
  void flush_pending_receives();
  /// Messages for this queue, which ends, are not reported any more.
  void forget_inbox(const ReceiveQueue& queue);
  /// Reports all requests in the own receive queue as flushed.
  void flush_own_receives();
  [[nodiscard]] ReceiveBuffer make_buffer() const;

 private:
  void note(std::string_view what, const std::string& why);
  [[nodiscard]] Inbox own_inbox() noexcept;

  struct PendingReceive {
    Inbox inbox;  // without a completion queue: it has ended
    std::uint64_t message = 0;
    Completion completion;
    bool is_solicited = false;
    Operation placed;
  };

  void add(CompletionQueue& queue, const Completion& completion, bool is_solicited, const HeldEntry& held);

  std::deque<PendingReceive> pending_;
};

}  // namespace sidelatch::softnic::nic
