#include <sidelatch/sync/crc64.h>

#include <sidelatch/sync/latch_word.h>

#include <isa-l/crc64.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace sidelatch::sync {

using namespace fabric;

namespace {

std::uint64_t extend(std::uint64_t crc, const void* bytes, std::uint64_t length) {
  return ::crc64_ecma_refl(crc, static_cast<const unsigned char*>(bytes), length);
}

// CRC-8 of a CRC-64: eight bits, so random contents collide once in 256.
std::uint64_t crc8_of(std::uint64_t crc) {
  constexpr std::uint8_t kPolynomial = 0x07;
  std::uint8_t remainder = 0;
  for (unsigned byte = 0; byte < 8; ++byte) {
    remainder = static_cast<std::uint8_t>(remainder ^ (crc >> (8 * byte)));
    for (unsigned bit = 0; bit < 8; ++bit) {
      const bool carry = (remainder & 0x80) != 0;
      remainder = static_cast<std::uint8_t>(remainder << 1);
      remainder = carry ? static_cast<std::uint8_t>(remainder ^ kPolynomial) : remainder;
    }
  }
  return remainder;
}

// Memory that is not of the heap of a program that is explored. What is kept on that heap from one execution to the
// next counts as the program's, and the explorer says so in place of `safe`.
template <class T>
struct OfNoProgram {
  using value_type = T;
  OfNoProgram() = default;
  template <class U>
  explicit OfNoProgram(const OfNoProgram<U>& /*other*/) noexcept {}
  [[nodiscard]] T* allocate(std::size_t count) {
    if (void* const memory = std::malloc(count * sizeof(T))) {
      return static_cast<T*>(memory);
    }
    throw std::bad_alloc();
  }
  void deallocate(T* memory, std::size_t /*count*/) noexcept { std::free(memory); }
  friend bool operator==(const OfNoProgram& /*a*/, const OfNoProgram& /*b*/) noexcept { return true; }
};

// A checksum without collisions: the CRC plus the number of the content among all with the same CRC.
std::uint64_t ideal_of(std::uint64_t crc, std::uint64_t version, std::span<const std::byte> payload) {
  using Content = std::vector<std::byte, OfNoProgram<std::byte>>;
  using Entry = std::pair<const std::uint64_t, Content>;
  static std::mutex mutex;
  static std::map<std::uint64_t, Content, std::less<>, OfNoProgram<Entry>> contents;
  Content content(sizeof version + payload.size());
  std::memcpy(content.data(), &version, sizeof version);
  std::memcpy(content.data() + sizeof version, payload.data(), payload.size());
  const std::scoped_lock lock(mutex);
  for (;; ++crc) {
    const auto [entry, is_new] = contents.try_emplace(crc, content);
    if (is_new || entry->second == content) {
      return crc;
    }
  }
}

std::string full_name(Checksum checksum) {
  const std::string base = "optimistic/crc64";
  return checksum == Checksum::crc8 ? base + "+crc8" : checksum == Checksum::ideal ? base + "+ideal" : base;
}

}  // namespace

std::uint64_t crc64(std::span<const std::byte> bytes) { return extend(0, bytes.data(), bytes.size()); }

Crc64::Crc64(WriterUnlatch unlatch, Checksum checksum)
    : OptimisticScheme(full_name(checksum), unlatch), checksum_(checksum) {}

// The covered bytes are not contiguous, so the checksum is chained: the version first, then the payload. An object that
// was never written has version 0, an all-zero payload and checksum 0.
std::uint64_t Crc64::checksum_of(std::uint64_t version, std::span<const std::byte> payload) const {
  const std::uint64_t crc = extend(extend(0, &version, sizeof version), payload.data(), payload.size());
  switch (checksum_) {
    case Checksum::crc64:
      return crc;
    case Checksum::crc8:
      return crc8_of(crc);
    case Checksum::ideal:
      return ideal_of(crc, version, payload);
  }
  return crc;
}

void Crc64::encode(const ObjectBuffer& buffer, std::uint64_t version) const {
  const std::uint64_t checksum = checksum_of(version, buffer.payload());
  std::memcpy(buffer.record().data + buffer.shape().checksum, &checksum, sizeof checksum);
}

// Figure 13(b).
Task<OptimisticScheme::Attempt> Crc64::try_read(Session& session, Object object, const ObjectBuffer& buffer) const {
  co_await session.qp().read(buffer.record(), object.record());
  const ObjectHeader header = header_in_record(buffer);
  if (header.latch != kFree) {
    co_return Attempt{false, header};
  }
  co_await session.spend(CpuWork::checksum, object.shape->payload_bytes);
  std::uint64_t stored = 0;
  std::memcpy(&stored, buffer.record().data + object.shape->checksum, sizeof stored);
  const std::span<const std::byte> payload = buffer.payload();
  bool right = false;
  if (header.version == 0 && stored == 0) {
    // Never written. If a line of the first update is among the sampled lines, it must be all zeros.
    right = payload.empty() ||
            (payload[0] == std::byte{0} && std::memcmp(payload.data(), payload.data() + 1, payload.size() - 1) == 0);
  } else {
    right = stored == checksum_of(header.version, payload);
  }
  co_return Attempt{right, header};
}

}  // namespace sidelatch::sync
