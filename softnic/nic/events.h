// Asynchronous events of a NIC: unsolicited reports about its objects.
//
// They wait in a queue, in the order in which they happened, until somebody takes them. Source: InfiniBand Architecture
// Specification, volume 1, 11.6 (asynchronous events); the comment at each name says when the event occurs.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace sidelatch::softnic::nic {

struct Event {
  enum class Kind : std::uint8_t {
    communication_established,  ///< queue pair: the first packet came while it was in RTR
    send_queue_drained,         ///< queue pair: SQD was requested, and all begun requests have completed
    last_receive_reached,       ///< queue pair with a shared receive queue: in ERROR, it takes no more from it
    queue_pair_fatal,           ///< queue pair: its completions cannot be reported
    request_error,              ///< queue pair as responder: a request was invalid
    access_error,               ///< queue pair as responder: a request lacked the rights
    shared_receive_limit,       ///< shared receive queue: fewer requests than its limit
    completion_queue_error,     ///< completion queue: it overran
  };
  Kind kind{};
  /// The number of the queue pair, shared receive queue or completion queue.
  std::uint32_t number = 0;
  friend bool operator==(const Event&, const Event&) = default;
};

class Events {
 public:
  void add(Event::Kind kind, std::uint32_t number) { waiting_.push_back({kind, number}); }
  /// Takes out the oldest event.
  [[nodiscard]] std::optional<Event> next() {
    if (waiting_.empty()) {
      return std::nullopt;
    }
    const Event event = waiting_.front();
    waiting_.pop_front();
    return event;
  }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }
  /// Removes the events of an object that ended. `of` tells whether a kind of event belongs to such objects.
  template <class Of>
  void forget(std::uint32_t number, Of of) {
    std::erase_if(waiting_, [&](const Event& event) { return event.number == number && of(event.kind); });
  }

 private:
  std::deque<Event> waiting_;
};

}  // namespace sidelatch::softnic::nic
