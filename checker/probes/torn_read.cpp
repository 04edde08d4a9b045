#include <sidelatch/checker/torn_read.h>

#include "probing.h"

#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;

namespace {

std::uint64_t stride(std::uint64_t block_bytes) { return (block_bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

// Chooses the slot where a read is likely to meet a write. Number n is written to slot (n - 1) % slots, and the reader
// waits for it there. If a slot is already written at the first look, the writer is ahead, and the reader jumps
// further.
class Frontier {
 public:
  explicit Frontier(std::uint64_t slots) : slots_(slots) {}
  [[nodiscard]] std::uint64_t slot() const { return (next_ - 1) % slots_; }
  void saw(std::uint64_t number) {
    if (number < next_) {
      waited_ = true;
      return;
    }
    jump_ = waited_ ? 1 : std::min(jump_ * 2, std::max<std::uint64_t>(slots_ / 4, 1));
    next_ = number + jump_;
    waited_ = false;
  }

 private:
  std::uint64_t slots_;
  std::uint64_t next_ = 1;
  std::uint64_t jump_ = 1;
  bool waited_ = false;
};

bool go_on(const RingOptions& options, std::uint64_t reads) {
  return reads < options.reads && goes_on(reads, options.keep_going);
}

struct Ring {
  Ring(Node& storage, Node& writer, Node& reader, const RingOptions& ring_options)
      : options(ring_options),
        slots(ring_options.ring_bytes / stride(ring_options.offset + ring_options.block_bytes)),
        memory(storage.allocate(slots * stride(ring_options.offset + ring_options.block_bytes), Access::remote_all)),
        writer_buffer(writer.allocate(ring_options.block_bytes, Access::local_write)),
        reader_buffer(reader.allocate(ring_options.block_bytes, Access::local_write)),
        writer_qp(writer.connect(storage)),
        reader_qp(reader.connect(storage)) {}

  [[nodiscard]] RemoteSpan block(std::uint64_t slot) const {
    return memory.remote(slot * stride(options.offset + options.block_bytes) + options.offset, options.block_bytes);
  }
  const RingOptions& options;
  std::uint64_t slots;
  MemoryRegion memory;
  MemoryRegion writer_buffer;
  MemoryRegion reader_buffer;
  std::unique_ptr<QueuePair> writer_qp;
  std::unique_ptr<QueuePair> reader_qp;
  bool stopped = false;
  std::uint64_t writes = 0;
};

// `in_line` is the offset of the first byte in its line.
void note_seams(std::span<const std::byte> bytes, std::uint64_t in_line, TornReads& seen) {
  std::uint64_t before = word_at(bytes, 0);
  for (std::size_t offset = kWord; offset < bytes.size(); offset += kWord) {
    const std::uint64_t word = word_at(bytes, offset);
    if (word != before) {
      seen.granularity = std::gcd(seen.granularity, in_line + offset);
      ++(word < before ? seen.later_in_front : seen.later_behind);
    }
    before = word;
  }
}

Task<void> write_blocks(Ring& ring) {
  while (!ring.stopped) {
    const std::uint64_t number = ++ring.writes;
    fill(ring.writer_buffer.bytes(), number);
    co_await ring.writer_qp->write(ring.writer_buffer.local(), ring.block((number - 1) % ring.slots));
  }
}

Task<TornReads> read_blocks(Ring& ring) {
  TornReads seen;
  seen.block_bytes = ring.options.block_bytes;
  Frontier frontier(ring.slots);
  const std::span<const std::byte> bytes = ring.reader_buffer.bytes();
  while (go_on(ring.options, seen.reads)) {
    const std::uint64_t slot = frontier.slot();
    co_await ring.reader_qp->read(ring.reader_buffer.local(), ring.block(slot));
    ++seen.reads;
    const std::uint64_t header = word_at(bytes, 0);
    const std::uint64_t footer = word_at(bytes, bytes.size() - kWord);
    const bool mixed = !uniform(bytes);
    if (mixed) {
      note_seams(bytes, ring.options.offset, seen);
    }
    if (header != footer) {
      ++seen.detected;
      continue;
    }
    if (!mixed) {
      ++seen.consistent;
    } else {
      ++seen.undetected;
      if (!seen.evidence) {
        seen.evidence = TornBlock{slot, words_of(bytes)};
      }
    }
    frontier.saw(header);
  }
  ring.stopped = true;
  seen.writes = ring.writes;
  co_return seen;
}

// The same ring with a scheme's records instead of bare blocks.
struct ObjectRing {
  ObjectRing(Node& storage, Node& writer, Node& reader, const SelectedScheme& selected, const RingOptions& ring_options)
      : options(ring_options),
        scheme(*selected.scheme),
        layout(shape_of_words(selected, ring_options.block_bytes), selected.layout,
               ring_options.ring_bytes / stride(ring_options.block_bytes)),
        memory(storage.allocate(layout.total_bytes(), Access::remote_all)),
        objects(layout, memory.remote()),
        writer_node(&writer),
        reader_node(&reader) {
    serve_at(options.place, memory, objects);
    writer_qp = writer.connect(storage);
    reader_qp = reader.connect(storage);
  }

  [[nodiscard]] sync::SessionOptions session_options(Node& client, const sync::Retry& retry) const {
    sync::SessionOptions session;
    session.buffers = std::min(session.buffers, scheme.most_buffers());
    session.retry = retry;
    return complete(options.place, client, session);
  }

  const RingOptions& options;
  const sync::Scheme& scheme;
  sync::Layout layout;
  MemoryRegion memory;
  sync::ObjectArray objects;
  Node* writer_node;
  Node* reader_node;
  std::unique_ptr<QueuePair> writer_qp;
  std::unique_ptr<QueuePair> reader_qp;
  bool stopped = false;
  bool stuck = false;
  std::uint64_t writes = 0;
};

Task<void> update_objects(ObjectRing& ring) {
  // Nobody else latches, so if a latch stays held for this long, its unlatch was lost.
  const sync::Retry patience = sync::Retry::backoff().within(ring.options.patience);
  sync::Session session(*ring.writer_qp, sync::buffer_bytes(ring.layout.shape()),
                        ring.session_options(*ring.writer_node, patience));
  while (!ring.stopped) {
    const std::uint64_t number = ++ring.writes;
    const std::uint64_t slot = (number - 1) % ring.objects.size();
    const bool done = co_await ring.scheme.update(session, ring.objects.at(slot),
                                                  [number](std::span<std::byte> payload) { fill(payload, number); });
    if (!done) {
      ring.stuck = true;
      break;
    }
  }
  co_await ring.writer_qp->drain();
}

Task<SchemeReads> read_objects(ObjectRing& ring) {
  // One attempt at a time, so that the reader can follow the writer.
  const sync::Retry once = sync::Retry::at_once().within(Duration(1));
  sync::Session session(*ring.reader_qp, sync::buffer_bytes(ring.layout.shape()),
                        ring.session_options(*ring.reader_node, once));
  SchemeReads seen;
  seen.object_bytes = ring.options.block_bytes;
  Frontier frontier(ring.objects.size());
  std::vector<std::byte> payload(ring.layout.shape().payload_bytes);
  while (!ring.stuck && go_on(ring.options, seen.reads)) {
    const std::uint64_t slot = frontier.slot();
    const sync::ReadResult result = co_await ring.scheme.read(session, ring.objects.at(slot), payload);
    ++seen.reads;
    if (!result.accepted) {
      ++seen.rejected;
      continue;
    }
    ++seen.accepted;
    if (!uniform(payload)) {
      ++seen.torn;
      if (!seen.evidence) {
        seen.evidence = TornBlock{slot, words_of(payload)};
      }
    }
    frontier.saw(word_at(payload, 0));
  }
  ring.stopped = true;
  co_await ring.reader_qp->drain();
  co_return seen;
}

}  // namespace

void RingOptions::validate() const {
  if (block_bytes < kLineBytes || block_bytes > kLargestBlock || block_bytes % kWord != 0) {
    throw std::invalid_argument(fmt::format("block size {}: it must be a multiple of {} bytes, {} to {}", block_bytes,
                                            kWord, kLineBytes, kLargestBlock));
  }
  if (offset >= kLineBytes || offset % kWord != 0) {
    throw std::invalid_argument(
        fmt::format("offset {}: it must be a multiple of {} below {}", offset, kWord, kLineBytes));
  }
  if (ring_bytes / stride(offset + block_bytes) < 2) {
    throw std::invalid_argument(
        fmt::format("a ring of {} bytes: it must hold at least 2 blocks of {} bytes", ring_bytes, block_bytes));
  }
  if (reads == 0) {
    throw std::invalid_argument("0 reads: there must be at least 1");
  }
}

Observation as_observation(std::string name, const TornReads& reads) {
  return {.name = std::move(name),
          .chances = reads.reads,
          .seen = reads.detected + reads.undetected,
          .detail = {{"bytes", reads.block_bytes},
                     {"undetected", reads.undetected},
                     {"granularity", reads.granularity},
                     {"later_in_front", reads.later_in_front},
                     {"later_behind", reads.later_behind}}};
}

TornReads probe_torn_reads(Node& storage, Node& writer, Node& reader, const RingOptions& options) {
  options.validate();
  Ring ring(storage, writer, reader, options);
  const Reactor::Scope tasks(storage.reactor());
  storage.reactor().spawn(write_blocks(ring));
  TornReads seen = storage.reactor().run(read_blocks(ring));
  storage.reactor().run();
  return seen;
}

SchemeReads probe_scheme(Node& storage, Node& writer, Node& reader, const SelectedScheme& scheme,
                         const RingOptions& options) {
  options.validate();
  ObjectRing ring(storage, writer, reader, scheme, options);
  const Reactor::Scope tasks(storage.reactor());
  storage.reactor().spawn(update_objects(ring));
  SchemeReads seen = storage.reactor().run(read_objects(ring));
  storage.reactor().run();
  // The writer may have waited longer than the reader read.
  seen.stuck = ring.stuck;
  seen.writes = ring.writes;
  return seen;
}

std::string describe(const TornBlock& block, std::size_t most) {
  std::string text;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < block.words.size();) {
    std::size_t end = i;
    while (end < block.words.size() && block.words[end] == block.words[i]) {
      ++end;
    }
    if (++runs > most) {
      return text + ", ...";
    }
    text += fmt::format("{}{} x{}", text.empty() ? "" : ", ", block.words[i], end - i);
    i = end;
  }
  return text;
}

}  // namespace sidelatch::checker
