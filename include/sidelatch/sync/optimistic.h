// Optimistic schemes: readers take no latch, and find out afterwards whether a writer was at work.
//
//   TwoReadVersion scheme;
//   ReadResult seen = co_await scheme.read(qp, object, scratch, payload);
//   if (seen.accepted) use(payload);           // else a writer was there: begin again
//   bool done = co_await scheme.update(qp, object, scratch, payload);
//
// An object is `object_bytes` of the memory node, aligned to a line: an 8-byte latch, an 8-byte version, what the
// scheme adds, and the payload. Writers are the same in all schemes: latch by CAS, with the object's READ in the same
// doorbell (an atomic is executed before a later READ of its queue pair: rule 5); new payload and version; one WRITE,
// with the unlatching FETCH-ADD in the same doorbell (WRITE before atomic: rule 5). Source: paper "Synchronizing
// Disaggregated Data Structures with One-Sided RDMA" (TODS 2025), sections 3.3 and 4.3.
//
// An accepted read is latch-equivalent: the payload is one committed version, unchanged until the final validation.
//
// Thread-safety: schemes have no state; one object may serve any number of tasks.
#pragma once

#include <sidelatch/fabric/queue_pair.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace sidelatch::sync {

struct ReadResult {
  bool accepted = false;
  std::uint64_t version = 0;  ///< of the object; meaningful if accepted
};

class OptimisticScheme {
 public:
  OptimisticScheme() = default;
  OptimisticScheme(const OptimisticScheme&) = delete;
  OptimisticScheme& operator=(const OptimisticScheme&) = delete;
  virtual ~OptimisticScheme() = default;

  /// As on the command line: "optimistic/two-read".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Payload bytes of an object of `object_bytes`, a multiple of 8 and at least 64; a multiple of 8.
  [[nodiscard]] virtual std::uint64_t payload_bytes(std::uint64_t object_bytes) const noexcept = 0;

  /// Reads the object once. `scratch` is registered memory of the queue pair's node, at least as long as the object and
  /// aligned to a line; `payload` has payload_bytes(object.length). Throws std::invalid_argument for other sizes.
  [[nodiscard]] virtual fabric::Task<ReadResult> read(fabric::QueuePair& qp, fabric::RemoteSpan object,
                                                      fabric::LocalSpan scratch,
                                                      std::span<std::byte> payload) const = 0;

  /// Latches the object, replaces its payload and unlatches it. False: it was latched by someone else, and nothing was
  /// changed. Sizes as for read().
  [[nodiscard]] fabric::Task<bool> update(fabric::QueuePair& qp, fabric::RemoteSpan object, fabric::LocalSpan scratch,
                                          std::span<const std::byte> payload) const;

 protected:
  /// Puts payload and version into the bytes of an object; the latch word is not its business.
  virtual void encode(std::span<std::byte> object, std::uint64_t version, std::span<const std::byte> payload) const = 0;
  void check_sizes(const fabric::RemoteSpan& object, const fabric::LocalSpan& scratch, std::uint64_t payload) const;
};

/// The first 16 bytes of every object: latch and version, in one line.
struct ObjectHeader {
  std::uint64_t latch = 0;  ///< 0 free, 1 held
  std::uint64_t version = 0;
  friend bool operator==(const ObjectHeader&, const ObjectHeader&) = default;
};
inline constexpr std::uint64_t kHeaderBytes = sizeof(ObjectHeader);
[[nodiscard]] ObjectHeader header_of(std::span<const std::byte> object);

/// READs the header again into the start of `scratch`: true if it is free and still `seen`. The final validation.
[[nodiscard]] fabric::Task<bool> header_unchanged(fabric::QueuePair& qp, fabric::RemoteSpan object,
                                                  fabric::LocalSpan scratch, ObjectHeader seen);

}  // namespace sidelatch::sync
