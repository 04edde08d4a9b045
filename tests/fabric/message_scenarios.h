// What two-sided messages promise in every world (queue_pair.h), as scenarios of tasks: the simulator and verbs run
// them once, or some times, the explorer in every execution. two_sided_suite.h has the rest, which needs a reactor.
#pragma once

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/fabric.h>
#include <sidelatch/fabric/queue_pair.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

namespace sidelatch::fabric::two_sided {

/// Two nodes, the ends of a pair, and memory of each: `table` for the other's requests, `inbox` for its messages, `out`
/// for what this one sends. Words are one to a line.
struct MessageSite {
  struct Side {
    Node* node = nullptr;
    MemoryRegion table;
    MemoryRegion inbox;
    MemoryRegion out;
    std::unique_ptr<QueuePair> qp;

    [[nodiscard]] LocalSpan filled(std::uint64_t line, std::uint64_t value, std::uint64_t bytes = 8) const {
      for (std::uint64_t at = 0; at < bytes; at += 8) {
        std::memcpy(out.bytes().data() + line * 64 + at, &value, 8);
      }
      return out.local(line * 64, bytes);
    }
    [[nodiscard]] static std::uint64_t word_at(const std::byte* from) {
      std::uint64_t word = 0;
      std::memcpy(&word, from, 8);
      return word;
    }
    [[nodiscard]] std::uint64_t table_word(std::uint64_t line) const {
      return word_at(table.bytes().data() + line * 64);
    }
  };

  MessageSite(Node& first, Node& second, std::function<void(bool, std::string_view)> require_function)
      : require(std::move(require_function)) {
    for (std::size_t i = 0; i < 2; ++i) {
      Side& side = sides.at(i);
      side.node = i == 0 ? &first : &second;
      side.table = side.node->allocate(256, Access::remote_all);
      side.inbox = side.node->allocate(256, Access::local_write);
      side.out = side.node->allocate(256, Access::local_write);
    }
    std::tie(sides[0].qp, sides[1].qp) = first.connect_pair(second);
  }

  std::array<Side, 2> sides;
  std::function<void(bool, std::string_view)> require;
};

struct MessageScenario {
  std::string_view name;
  Task<void> (*receiver)(MessageSite* site, MessageSite::Side* me, MessageSite::Side* other);
  Task<void> (*sender)(MessageSite* site, MessageSite::Side* me, MessageSite::Side* other);
};

inline Task<void> receive_two_lines(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 192)), "a receive buffer found no room");
  const Received received = co_await me->qp->receive();
  site->require(received.number == 1 && received.message.length == 128 &&
                    received.message.data == me->inbox.bytes().data() && !received.immediate && !received.is_write,
                "a message is reported otherwise than it was sent");
  for (std::uint64_t at = 0; at < 128; at += 8) {
    site->require(MessageSite::Side::word_at(received.message.data + at) == 7, "a message is not whole");
  }
  site->require(MessageSite::Side::word_at(me->inbox.bytes().data() + 128) == 0, "a message has written behind itself");
}
inline Task<void> send_two_lines(MessageSite* /*site*/, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  co_await me->qp->submit(send(me->filled(0, 7, 128)));
}

// The buffer is posted late, so the SEND waits, and what is behind it.
inline Task<void> receive_late(MessageSite* site, MessageSite::Side* me, MessageSite::Side* other) {
  co_await me->qp->fetch_add(other->table.remote(0, 8), 1);
  site->require(me->table_word(0) == 0, "a request has passed a message that waits for a buffer");
  site->require(me->qp->post_receive(me->inbox.local(0, 64)), "a receive buffer found no room");
  const Received received = co_await me->qp->receive();
  site->require(received.immediate == 5U && MessageSite::Side::word_at(received.message.data) == 3,
                "a message is reported otherwise than it was sent");
}
inline Task<void> send_and_add(MessageSite* /*site*/, MessageSite::Side* me, MessageSite::Side* other) {
  co_await me->qp->submit(send_with_immediate(me->filled(0, 3), 5), fetch_add(other->table.remote(0, 8), 1));
}

inline Task<void> receive_in_order(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  for (std::uint64_t i = 0; i < 2; ++i) {
    site->require(me->qp->post_receive(me->inbox.local(i * 64, 64)), "a receive buffer found no room");
  }
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Received received = co_await me->qp->receive();
    site->require(received.number == i + 1 && received.message.data == me->inbox.bytes().data() + i * 64 &&
                      MessageSite::Side::word_at(received.message.data) == i + 10,
                  "messages and buffers do not meet in their order");
  }
}
inline Task<void> send_in_order(MessageSite* /*site*/, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  co_await me->qp->submit(send(me->filled(0, 10)), send(me->filled(1, 11)));
}

// The message shows the WRITE before it, all of it.
inline Task<void> receive_behind_a_write(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 64)), "a receive buffer found no room");
  const Received received = co_await me->qp->receive();
  site->require(received.message.length == 8, "a message has another length");
  for (std::uint64_t line = 0; line < 2; ++line) {
    site->require(me->table_word(line) == 9, "a message came before the WRITE that was posted before it");
  }
}
inline Task<void> write_and_send(MessageSite* /*site*/, MessageSite::Side* me, MessageSite::Side* other) {
  co_await me->qp->submit(write(me->filled(0, 9, 128), other->table.remote(0, 128)), send(me->filled(2, 1)));
}

inline Task<void> serve_one(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 64)), "a receive buffer found no room");
  const Received question = co_await me->qp->receive();
  co_await me->qp->submit(send(me->filled(0, MessageSite::Side::word_at(question.message.data) + 1)));
}
inline Task<void> ask_one(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 64)), "a receive buffer found no room");
  co_await me->qp->submit(send(me->filled(0, 41)));
  const Received answer = co_await me->qp->receive();
  site->require(MessageSite::Side::word_at(answer.message.data) == 42, "the answer is another one");
}

inline Task<void> receive_an_empty_one(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  site->require(me->qp->post_receive(LocalSpan{}), "a receive buffer found no room");
  const Received received = co_await me->qp->receive();
  site->require(received.message.length == 0 && received.immediate == 77U, "an empty message is not empty");
}
inline Task<void> send_an_empty_one(MessageSite* /*site*/, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  co_await me->qp->submit(send_with_immediate(me->out.local(0, 0), 77));
}

// The READ before the fence is over when the message is there, although an empty message moves no bytes: what the
// receiver then does to the word comes too late for it.
inline Task<void> receive_and_overwrite(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  site->require(me->qp->post_receive(LocalSpan{}), "a receive buffer found no room");
  (void)co_await me->qp->receive();
  co_await me->node->cpu().store(me->table.local(0, 8), 5);
}
inline Task<void> read_and_send_a_fenced_empty_one(MessageSite* site, MessageSite::Side* me, MessageSite::Side* other) {
  co_await me->qp->submit(read(me->inbox.local(0, 8), other->table.remote(0, 8)),
                          send(me->out.local(0, 0)).with_fence());
  site->require(MessageSite::Side::word_at(me->inbox.bytes().data()) == 0,
                "a fenced message came before the READ had ended");
}

// What the receiver has stored to its buffer before it posted it does not erase the message.
inline Task<void> clear_and_receive(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  co_await me->node->cpu().store(me->inbox.local(0, 8), 1);
  site->require(me->qp->post_receive(me->inbox.local(0, 8)), "a receive buffer found no room");
  (void)co_await me->qp->receive();
  co_await me->node->cpu().fence();
  const std::uint64_t word = co_await me->node->cpu().load(me->inbox.local(0, 8));
  site->require(word == 7, "a store of before has erased the message");
}
inline Task<void> send_a_word(MessageSite* /*site*/, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  co_await me->qp->submit(send(me->filled(0, 7)));
}

// The same of an empty message: what was stored before its buffer was posted is in memory, where the sender's READ
// finds it, when the message has arrived, and when its sender learns so.
inline Task<void> store_and_receive(MessageSite* site, MessageSite::Side* me, MessageSite::Side* /*other*/) {
  co_await me->node->cpu().store(me->table.local(0, 8), 1);
  site->require(me->qp->post_receive(LocalSpan{}), "a receive buffer found no room");
  (void)co_await me->qp->receive();
}
inline Task<void> send_and_read(MessageSite* site, MessageSite::Side* me, MessageSite::Side* other) {
  co_await me->qp->submit(send(me->out.local(0, 0)));
  co_await me->qp->read(me->inbox.local(0, 8), other->table.remote(0, 8));
  site->require(MessageSite::Side::word_at(me->inbox.bytes().data()) == 1,
                "a message was taken before the stores in front of its buffer were in memory");
}

inline constexpr std::array kMessageScenarios = {
    MessageScenario{"AMessageArrivesWhole", receive_two_lines, send_two_lines},
    MessageScenario{"AMessageWithoutABufferWaits", receive_late, send_and_add},
    MessageScenario{"BuffersTakeMessagesInOrder", receive_in_order, send_in_order},
    MessageScenario{"AMessageShowsTheWriteBeforeIt", receive_behind_a_write, write_and_send},
    MessageScenario{"BothEndsSend", serve_one, ask_one},
    MessageScenario{"AnEmptyMessageTakesABuffer", receive_an_empty_one, send_an_empty_one},
    MessageScenario{"AFencedEmptyMessageComesBehindTheRead", receive_and_overwrite, read_and_send_a_fenced_empty_one},
    MessageScenario{"AStoreBeforeTheBufferErasesNoMessage", clear_and_receive, send_a_word},
    MessageScenario{"AMessageComesBehindTheStoresBeforeItsBuffer", store_and_receive, send_and_read},
};

}  // namespace sidelatch::fabric::two_sided
