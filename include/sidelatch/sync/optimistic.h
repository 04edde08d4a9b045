// Optimistic schemes: readers take no latch, and check afterwards whether a writer was at work.
//
// All these schemes share their writers. A writer latches exclusively (ExclusiveLatch, speculatively), writes payload,
// version + 1 and the scheme's additions by one WRITE of the record, and unlatches by FETCH-ADD or, in a footer layout,
// by that WRITE.
//
// A reader's attempt sees a consistent payload or none. begin_read() makes attempts until one succeeds or the deadline
// passes; validate() then reads the header once more: the latch must be free and the version unchanged. Source: TODS
// 2025, sections 4.1 and 4.3, figures 12 and 13.
//
// Only the session's deadline limits restarts: a reader of an object that is written without pause may starve, as with
// any optimistic scheme. Versions have 64 bits and do not wrap; at one update per microsecond that would take half a
// million years.
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/scheme.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

namespace sidelatch::sync {

/// How writers unlatch: by FETCH-ADD (Release), or with the WRITE itself (WriteUnlatch, safe under `observed` only).
using WriterUnlatch = std::variant<Release, WriteUnlatch>;

/// Latch and version as one READ sees them.
struct ObjectHeader {
  std::uint64_t latch = 0;
  std::uint64_t version = 0;
  friend bool operator==(const ObjectHeader&, const ObjectHeader&) = default;
};
/// The header in `bytes`, which are a full copy of it.
[[nodiscard]] ObjectHeader header_in(std::span<const std::byte> bytes, const RecordShape& shape);

class OptimisticScheme : public Scheme {
 public:
  explicit OptimisticScheme(std::string name, WriterUnlatch unlatch = Release::combined);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] LayoutKind default_layout() const noexcept override {
    return writer_.unlatches_by_write() ? LayoutKind::padded_footer : LayoutKind::padded;
  }

 protected:
  /// The result of one attempt to read.
  struct Attempt {
    bool accepted = false;
    ObjectHeader header;  ///< as read, accepted or not
  };
  /// Reads the object once; if it accepts, the buffer holds a consistent payload.
  [[nodiscard]] virtual fabric::Task<Attempt> try_read(Session& session, Object object,
                                                       const ObjectBuffer& buffer) const = 0;
  /// Whether the attempt's last READ was a validation.
  [[nodiscard]] virtual bool attempt_validates() const noexcept { return false; }
  /// Puts the scheme's additions, and the payload if it lies apart, into the buffer's record. The header is already
  /// there.
  virtual void encode(const ObjectBuffer& buffer, std::uint64_t version) const = 0;
  /// Gathers the payload of a latched record into buffer.payload().
  virtual void decode(const ObjectBuffer& buffer) const = 0;

  /// For a record that was taken over: a version not below any version that a writer may have left in it.
  [[nodiscard]] virtual std::uint64_t highest_version(const ObjectBuffer& /*buffer*/, std::uint64_t header) const {
    return header + 1;  // the dead holder's version, which may be placed in part
  }

  /// READs the header into the buffer's place for it.
  [[nodiscard]] static fabric::Task<ObjectHeader> read_header(Session& session, Object object,
                                                              const ObjectBuffer& buffer);
  /// The version of an object that was just latched.
  [[nodiscard]] static std::uint64_t latched_version(const Hold& hold);
  /// The header within the buffer's record.
  [[nodiscard]] static ObjectHeader header_in_record(const ObjectBuffer& buffer);

  [[nodiscard]] fabric::Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                                      Takeover takeover) const override;
  [[nodiscard]] fabric::Task<void> commit(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> abort(Hold& hold) const override;
  [[nodiscard]] fabric::Task<ReadGuard> do_begin_read(Session& session, Object object,
                                                      std::source_location place) const override;
  [[nodiscard]] fabric::Task<bool> validate(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> release(Hold& hold) const override;

  [[nodiscard]] const ExclusiveLatch& writer() const noexcept { return writer_; }

 private:
  std::string name_;
  ExclusiveLatch writer_;
};

}  // namespace sidelatch::sync
