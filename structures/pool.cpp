#include <sidelatch/structures/pool.h>

#include "holding.h"
#include "seal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

constexpr std::uint64_t kLinkBytes = 8;

constexpr std::uint64_t kTornPool = std::numeric_limits<std::uint64_t>::max();  // stored as the mark

// In the link's place, for an object that is not free: who has taken it. No link is that large.
constexpr std::uint64_t kMark = std::uint64_t{1} << 63;
std::uint64_t mark_of(std::uint16_t owner) { return kMark | owner; }

// The control record's payload.
struct Control {
  std::uint64_t seal = 0;
  std::uint64_t head = 0;  // 1 + the first free object of those given back; 0: none
  std::uint64_t mark = 0;  // number of objects ever handed out, without the reserved ones
};

Control control_in(std::span<const std::byte> payload) {
  Control control;
  std::memcpy(&control, payload.data(), sizeof control);
  return control;
}

void put(const Control& control, std::span<std::byte> payload) {
  std::memcpy(payload.data(), &control, sizeof control);
  seal(payload);
}

RecordShape shape_of(const Scheme& of_array) {
  const Scheme& scheme = of_array.for_single_records();
  return scheme.shape(sizeof(Control), scheme.default_layout());
}

Layout layout_of(const Scheme& of_array) {
  return {shape_of(of_array), of_array.for_single_records().default_layout(), 1};
}

std::uint64_t links_begin(const Layout& layout) { return RecordShape::whole_lines(layout.total_bytes()); }

// A registered buffer of one word.
Task<RingBuffer> word_buffer(Session& session, const RecordShape& shape) {
  RingBuffer buffer = session.take_buffer(shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  co_return buffer;
}

}  // namespace

std::uint64_t Pool::bytes_needed(const Scheme& scheme, std::uint64_t count) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;
  if (count > kMost) {
    throw std::invalid_argument(fmt::format("a pool of {} objects: it must have at most {}", count, kMost));
  }
  return links_begin(layout_of(scheme)) + count * kLinkBytes;
}

std::uint64_t Pool::buffer_bytes(const Scheme& scheme) { return sync::buffer_bytes(shape_of(scheme)); }

Pool::Pool(const Scheme& scheme, const RemoteSpan& memory, std::size_t memory_node, std::uint64_t count,
           std::uint64_t reserved)
    : scheme_(&scheme.for_single_records()),
      control_(layout_of(scheme), memory),
      links_(memory.subspan(links_begin(control_.layout()), count * kLinkBytes)),
      memory_node_(memory_node),
      count_(count),
      reserved_(reserved) {
  if (reserved > count) {
    throw std::invalid_argument(fmt::format("a pool of {} objects cannot reserve {}", count, reserved));
  }
}

void Pool::throw_damaged(const char* what) const {
  throw StructureError(fmt::format("the pool of memory node {} is damaged: {}", memory_node_, what));
}

Task<ExclusiveGuard> Pool::latch(Client& client) const {
  for (;;) {
    ExclusiveGuard guard = co_await scheme_->latch(client.session(memory_node_), control_.at(0));
    if (!guard) {
      co_return guard;
    }
    if (!guard.inherited()) {
      const Control control = control_in(guard.payload());
      const bool torn = control.mark == kTornPool;
      if (torn || control.mark > count_ - reserved_ || control.head > count_) {
        co_await guard.abort();
        throw_damaged(torn ? "its last holder died within a WRITE; only optimistic/copy-on-write survives that"
                           : "it has or links objects that there are not");
      }
      co_return guard;
    }
    if (!is_sealed(guard.payload())) {
      // If left latched, it would cost each client that meets it its queue pairs, one after the other.
      put({.mark = kTornPool}, guard.payload());
    }
    co_await guard.commit();  // it is then latched with a lease that begins now
  }
}

Task<std::uint64_t> Pool::read_link(Client& client, const RingBuffer& word, std::uint64_t object) const {
  const LocalSpan into = word.span().subspan(0, kLinkBytes);
  co_await client.session(memory_node_).qp().read(into, links_.subspan(object * kLinkBytes, kLinkBytes));
  std::uint64_t link = 0;
  std::memcpy(&link, into.data, kLinkBytes);
  co_return link;
}

Task<void> Pool::write_link(Client& client, const RingBuffer& word, std::uint64_t object, std::uint64_t link) const {
  const LocalSpan from = word.span().subspan(0, kLinkBytes);
  std::memcpy(from.data, &link, kLinkBytes);
  co_await client.session(memory_node_).qp().write(from, links_.subspan(object * kLinkBytes, kLinkBytes));
}

Task<Pool::Taken> Pool::take(Client& client, std::uint64_t most) const {
  // Taken before the latch: a client must not hold the latch while it waits for buffers.
  const RingBuffer word = co_await word_buffer(client.session(memory_node_), control_.layout().shape());
  ExclusiveGuard guard = co_await latch(client);
  if (!guard) {
    co_return Taken{.outcome = Outcome::timed_out};
  }
  Control control = control_in(guard.payload());
  Taken taken;
  const bool linked = control.head != 0;
  if (linked) {
    taken = {Outcome::done, control.head - 1, 1};
    // The client that linked it waited for that WRITE before it made the object the head.
    control.head = co_await read_link(client, word, taken.object);
    if (control.head > count_) {
      co_await guard.abort();
      throw_damaged("it links an object that there is not");
    }
  } else if (control.mark < count_ - reserved_) {
    taken = {Outcome::done, reserved_ + control.mark,
             std::clamp<std::uint64_t>(most, 1, count_ - reserved_ - control.mark)};
    if (client.session(memory_node_).options().owner != 0) {  // so many marks fit the buffer
      taken.count = std::min<std::uint64_t>(taken.count, word.span().length / kLinkBytes);
    }
    control.mark += taken.count;
  }
  put(control, guard.payload());
  co_await guard.commit();
  if (taken.outcome == Outcome::done) {
    co_await put_marks(client, word, taken);
  }
  co_return taken;
}

// After the commit, and fenced: WRITEs may be placed in any order, but a mark must not be there before the control
// record. If this client died between the two, the pool would hand out again what a sweep finds, or need the link whose
// place the mark has taken. The fence waits for the commit's unlatch, which is behind the control record (rules 5, 6).
Task<void> Pool::put_marks(Client& client, const RingBuffer& word, Taken taken) const {
  Session& session = client.session(memory_node_);
  const std::uint64_t mark = mark_of(session.options().owner);
  if (session.options().owner == 0) {
    co_return;
  }
  const LocalSpan from = word.span().subspan(0, taken.count * kLinkBytes);
  for (std::uint64_t i = 0; i < taken.count; ++i) {
    std::memcpy(from.data + i * kLinkBytes, &mark, kLinkBytes);
  }
  co_await session.qp().enqueue(write(from, links_.subspan(taken.object * kLinkBytes, from.length)).with_fence());
}

Task<void> Pool::mark(Client& client, std::uint64_t object) const {
  if (client.session(memory_node_).options().owner == 0) {
    co_return;
  }
  const RingBuffer word = co_await word_buffer(client.session(memory_node_), control_.layout().shape());
  co_await put_marks(client, word, {.outcome = Outcome::done, .object = object, .count = 1});
}

Task<std::vector<std::uint64_t>> Pool::marked(Client& client, std::uint16_t owner) const {
  const RingBuffer words = co_await word_buffer(client.session(memory_node_), control_.layout().shape());
  std::vector<std::uint64_t> found;
  const std::uint64_t at_once = words.span().length / kLinkBytes;
  for (std::uint64_t first = reserved_; first < count_; first += at_once) {
    const LocalSpan into = words.span().subspan(0, std::min(at_once, count_ - first) * kLinkBytes);
    co_await client.session(memory_node_).qp().read(into, links_.subspan(first * kLinkBytes, into.length));
    for (std::uint64_t i = 0; i < into.length / kLinkBytes; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, into.data + i * kLinkBytes, kLinkBytes);
      if (word == mark_of(owner)) {
        found.push_back(first + i);
      }
    }
  }
  co_return found;
}

Task<bool> Pool::claim(Client& client, std::uint64_t object, std::uint16_t owner) const {
  Session& session = client.session(memory_node_);
  const std::uint64_t seen = co_await session.qp().compare_swap(links_.subspan(object * kLinkBytes, kLinkBytes),
                                                                mark_of(owner), mark_of(session.options().owner));
  co_return seen == mark_of(owner);
}

Task<Outcome> Pool::give_back(Client& client, std::uint64_t object) const {
  if (object < reserved_ || object >= count_) {
    throw std::out_of_range(
        fmt::format("object {} given to a pool of the objects {} to {}", object, reserved_, count_ - 1));
  }
  const RingBuffer word = co_await word_buffer(client.session(memory_node_), control_.layout().shape());
  ExclusiveGuard guard = co_await latch(client);
  if (!guard) {
    co_return Outcome::timed_out;
  }
  Control control = control_in(guard.payload());
  co_await write_link(client, word, object, control.head);
  // Completed is not placed (memory model, rule 2), and the control record may be placed before it (rule 5): if this
  // client were revoked then, the list would lead to its mark.
  (void)co_await read_link(client, word, object);
  control.head = object + 1;
  put(control, guard.payload());
  std::exception_ptr error;
  try {
    co_await guard.commit();
  } catch (const LatchError&) {  // the lease was too short: the object stays this client's, and a sweep must find it
    error = std::current_exception();
  }
  if (error) {
    co_await put_marks(client, word, {.outcome = Outcome::done, .object = object, .count = 1});
    std::rethrow_exception(error);
  }
  co_return Outcome::done;
}

Task<Pool::Contents> Pool::contents(Client& client) const {
  const RingBuffer word = co_await word_buffer(client.session(memory_node_), control_.layout().shape());
  ExclusiveGuard guard;
  const std::uint64_t held = co_await stays_latched(*scheme_, client.session(memory_node_), control_.at(0));
  if (held == 0) {
    guard = co_await latch(client);
  }
  if (!guard) {
    throw_damaged("its latch is held, and it should be at rest");
  }
  const Control control = control_in(guard.payload());
  co_await guard.abort();
  Contents contents;
  contents.mark = control.mark;
  for (std::uint64_t link = control.head; link != 0;) {
    if (contents.free.size() == count_) {
      throw_damaged("its free objects are linked in a circle");
    }
    if (link > count_) {
      throw_damaged("it links an object that there is not");
    }
    contents.free.push_back(link - 1);
    link = co_await read_link(client, word, link - 1);
  }
  co_return contents;
}

}  // namespace sidelatch::structures
