#include <sidelatch/structures/superblock.h>

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/session.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

// The client that writes it needs a few microseconds. It may have died before it wrote the description.
constexpr int kLooks = 20;
constexpr Duration kBetweenLooks = from_ns(10'000);

void put_name(std::array<char, Superblock::kNameBytes>& into, std::string_view text) {
  into = {};
  std::copy_n(text.begin(), std::min(text.size(), into.size() - 1), into.begin());
}

std::string_view name_in(const std::array<char, Superblock::kNameBytes>& bytes) {
  return {bytes.data(), static_cast<std::size_t>(std::ranges::find(bytes, '\0') - bytes.begin())};
}

std::uint64_t checksum_of(const Superblock& block) {
  const std::uint64_t sum = crc64(std::as_bytes(std::span(&block, 1)).subspan(sizeof block.checksum));
  return sum == 0 ? 1 : sum;  // zero is memory without superblock
}

const RecordShape& buffer_shape() {
  static const RecordShape kShape = [] {
    RecordShape shape;
    shape.bytes = kSuperblockBuffer;
    shape.client_bytes = kSuperblockBuffer;
    return shape;
  }();
  return kShape;
}

enum class Head : std::uint8_t {
  as_expected,
  zeroed,
  claimed,  // by a client that expects the same and has not written it yet, or has died
};

bool is_zeroed(const LocalSpan& bytes) {
  return std::ranges::all_of(bytes.bytes(), [](std::byte byte) { return byte == std::byte{0}; });
}

Task<RingBuffer> superblock_buffer(Session& session) {
  RingBuffer buffer = session.take_buffer(buffer_shape());
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  co_return buffer;
}

// Reads the superblock until it is clear what it is. Changes nothing.
Task<Head> look_at(Client& client, std::size_t memory_node, RemoteSpan memory, const Superblock& expected) {
  Session& session = client.session(memory_node);
  const RingBuffer buffer = co_await superblock_buffer(session);
  const LocalSpan local = buffer.span().subspan(0, sizeof(Superblock));
  Superblock there;
  for (int look = 0; look < kLooks; ++look) {
    co_await session.qp().read(local, memory.subspan(0, sizeof(Superblock)));
    std::memcpy(&there, local.data, sizeof there);
    if (there == expected) {
      co_return Head::as_expected;
    }
    if (there.checksum == expected.checksum) {
      co_return Head::claimed;
    }
    if (is_zeroed(local)) {
      co_return Head::zeroed;
    }
    if (there.is_sealed()) {
      throw StructureError(
          fmt::format("the memory of memory node {} holds {}, and was opened as {}: open it as what it is, or begin "
                      "anew with zeroed memory",
                      memory_node, there.describe(), expected.describe()));
    }
    co_await client.reactor().sleep(kBetweenLooks);
  }
  throw StructureError(fmt::format(
      "the memory of memory node {} holds no structure: it begins with {:#x} {:#x}, which is no superblock; "
      "it was opened as {}. Give the structure zeroed memory of its own",
      memory_node, there.checksum, there.magic, expected.describe()));
}

// Writes the superblock. False if a client that expects something else has come first.
Task<bool> claim_head(Client& client, std::size_t memory_node, RemoteSpan memory, const Superblock& expected,
                      Head seen) {
  Session& session = client.session(memory_node);
  if (seen == Head::zeroed) {
    const std::uint64_t checksum = co_await session.qp().compare_swap(memory.subspan(0, 8), 0, expected.checksum);
    if (checksum != 0 && checksum != expected.checksum) {
      co_return false;
    }
  }
  // Whoever expects the same writes the same bytes; so it does not matter who does, or how often.
  const RingBuffer buffer = co_await superblock_buffer(session);
  const LocalSpan local = buffer.span().subspan(0, sizeof(Superblock));
  std::memcpy(local.data, &expected, sizeof expected);
  co_await session.qp().write(local.subspan(8, sizeof(Superblock) - 8), memory.subspan(8, sizeof(Superblock) - 8));
  co_return true;
}

}  // namespace

void Superblock::set_kind(std::string_view text) { put_name(kind, text); }
void Superblock::set_scheme(std::string_view text) { put_name(scheme, text); }

void Superblock::add(std::string_view name, std::uint64_t value) {
  for (std::size_t i = 0; i < kParameters; ++i) {
    if (names[i][0] == '\0') {
      put_name(names[i], name);
      values[i] = value;
      return;
    }
  }
  throw std::logic_error("a superblock has no room for another parameter");
}

void Superblock::seal() { checksum = checksum_of(*this); }
bool Superblock::is_sealed() const { return magic == kMagic && checksum == checksum_of(*this); }

std::string Superblock::describe() const {
  std::string text =
      fmt::format("a {} of format {} over {}, layout {}, memory node {} of {}", name_in(kind), version, name_in(scheme),
                  sync::name(static_cast<LayoutKind>(layout)), memory_node, memory_nodes);
  const char* before = ", with ";
  for (std::size_t i = 0; i < kParameters && names[i][0] != '\0'; ++i) {
    text += fmt::format("{}{} {}", before, name_in(names[i]), values[i]);
    before = ", ";
  }
  return text;
}

// A world that explores begins with memory that no other program knows, and would try every order of these steps. There
// only the wait for them is left, where other tasks of the client may go on meanwhile.
Task<void> open_superblocks(Client& client, std::span<const RemoteSpan> memory, std::span<const Superblock> expected) {
  if (client.reactor().explores()) {
    if (client.reactor().has_other_tasks()) {
      co_await client.reactor().sleep(from_ns(1));
    }
    co_return;
  }
  std::vector<Head> seen;
  for (std::size_t node = 0; node < memory.size(); ++node) {
    const Head head = co_await look_at(client, node, memory[node], expected[node]);
    seen.push_back(head);
  }
  for (std::size_t node = 0; node < memory.size(); ++node) {
    while (seen[node] != Head::as_expected) {
      const bool written = co_await claim_head(client, node, memory[node], expected[node], seen[node]);
      if (written) {
        break;
      }
      const Head head = co_await look_at(client, node, memory[node], expected[node]);
      seen[node] = head;
    }
  }
}

}  // namespace sidelatch::structures
