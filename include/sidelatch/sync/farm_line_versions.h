// FaRM's line versions: every line carries the object's version, so one READ shows whether its lines belong together.
//
//   READ record: latch free, all versions equal -> READ header: free and same version
//
// A line is sampled whole by coherent DMA, so its version and its data belong together. Lines must therefore be
// aligned, and the NIC must not copy in smaller pieces (`atom` 64). Two round trips per read, one for a consistent
// read. A version takes 8 or 2 bytes of each line. Writers scatter the payload over the lines and readers gather it,
// with the widest vectors of the CPU. Source: FaRM (NSDI 2014); TODS 2025, section 4.3.
//
// Two-byte versions wrap: lines that are 65 536 updates apart look alike. Only a read that lasts longer than that many
// updates could mix them. One update takes at least two round trips, so kLongestRead is far shorter. A longer read is
// not accepted and begins again. FaRM limits reads in the same way.
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync {

enum class LineVersion : std::uint8_t { bits16 = 2, bits64 = 8 };

class FarmLineVersions final : public OptimisticScheme {
 public:
  /// Half of the time of 65 536 updates, which take at least 65 ms at one microsecond each.
  static constexpr fabric::Duration kLongestRead = std::chrono::milliseconds(32);

  explicit FarmLineVersions(WriterUnlatch unlatch = Release::combined, LineVersion width = LineVersion::bits64,
                            fabric::Duration longest_read = kLongestRead);

  [[nodiscard]] RecordNeeds needs() const noexcept override {
    return {.version = true, .line_versions = static_cast<std::uint32_t>(width_), .header_inside = true};
  }

 protected:
  [[nodiscard]] fabric::Task<Attempt> try_read(Session& session, Object object,
                                               const ObjectBuffer& buffer) const override;
  void encode(const ObjectBuffer& buffer, std::uint64_t version) const override;
  void decode(const ObjectBuffer& buffer) const override;
  /// Each of several holders that died one after another may have left a version in some lines but not in the header.
  [[nodiscard]] std::uint64_t highest_version(const ObjectBuffer& buffer, std::uint64_t header) const override;

 private:
  LineVersion width_;
  fabric::Duration longest_read_;
};

}  // namespace sidelatch::sync
