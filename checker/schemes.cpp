#include <sidelatch/checker/schemes.h>

#include <sidelatch/sync/broken.h>
#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/mcs_latch.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/switch_latch.h>
#include <sidelatch/sync/switched_version.h>
#include <sidelatch/sync/ticket_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace sidelatch::checker {

using namespace sync;

namespace {

using Safe = std::array<bool, 4>;  // strict, observed, spec, relaxed
constexpr Safe kAlways = {true, true, true, true};
constexpr Safe kAscending = {true, true, false, false};  // relies on the order of a WRITE's lines (rule 3)
constexpr Safe kStrictOnly = {true, false, false, false};
constexpr Safe kNever = {false, false, false, false};

using Made = std::unique_ptr<Scheme>;

template <class T, auto... Arguments>
Made make() {
  return std::make_unique<T>(Arguments...);
}
// Write unlatch is an alternative of a variant, which cannot be a template argument.
template <class T>
Made make_with_write_unlatch() {
  return std::make_unique<T>(WriterUnlatch(WriteUnlatch::awaited));
}
template <Checksum Sum>
Made make_crc() {
  return std::make_unique<Crc64>(WriterUnlatch(Release::combined), Sum);
}
Made make_farm_v16() {
  return std::make_unique<FarmLineVersions>(WriterUnlatch(Release::combined), LineVersion::bits16);
}

constexpr Kind kLatch = Kind::latch;
constexpr Kind kQueue = Kind::queue;
constexpr Kind kOptimistic = Kind::optimistic;
constexpr Kind kSpecimen = Kind::specimen;
constexpr Kind kModelOnly = Kind::model_only;
constexpr Promise kExclusion = Promise::exclusion;
constexpr Promise kLatchEquivalent = Promise::latch_equivalent;
constexpr Promise kConsistent = Promise::consistent;

// A new scheme needs one line here.
constexpr std::array kSchemes = {
    SchemeEntry{"latch-exclusive/basic", kLatch, kExclusion, kAlways, make<ExclusiveLatch, LatchLevel::basic>},
    SchemeEntry{"latch-exclusive/speculative", kLatch, kExclusion, kAlways,
                make<ExclusiveLatch, LatchLevel::speculative>},
    SchemeEntry{"latch-exclusive/combined", kLatch, kExclusion, kAlways, make<ExclusiveLatch, LatchLevel::combined>},
    SchemeEntry{"latch-exclusive/async", kLatch, kExclusion, kAlways, make<ExclusiveLatch, LatchLevel::async>},
    SchemeEntry{"latch-exclusive/write-unlatch", kLatch, kExclusion, kAscending,
                make<ExclusiveLatch, Acquire::speculative, WriteUnlatch::awaited>},
    SchemeEntry{"latch-rw/basic", kLatch, kExclusion, kAlways, make<RwLatch, LatchLevel::basic>},
    SchemeEntry{"latch-rw/speculative", kLatch, kExclusion, kAlways, make<RwLatch, LatchLevel::speculative>},
    SchemeEntry{"latch-rw/combined", kLatch, kExclusion, kAlways, make<RwLatch, LatchLevel::combined>},
    SchemeEntry{"latch-rw/async", kLatch, kExclusion, kAlways, make<RwLatch, LatchLevel::async>},
    SchemeEntry{"latch-ticket/basic", kQueue, kExclusion, kAlways, make<TicketLatch, LatchLevel::basic>},
    SchemeEntry{"latch-ticket/combined", kQueue, kExclusion, kAlways, make<TicketLatch, LatchLevel::combined>},
    SchemeEntry{"latch-ticket/async", kQueue, kExclusion, kAlways, make<TicketLatch, LatchLevel::async>},
    SchemeEntry{"latch-mcs/basic", kQueue, kExclusion, kAlways, make<McsLatch, LatchLevel::basic>},
    SchemeEntry{"latch-mcs/combined", kQueue, kExclusion, kAlways, make<McsLatch, LatchLevel::combined>},
    SchemeEntry{"optimistic/two-read", kOptimistic, kLatchEquivalent, kAlways, make<TwoReadVersion>},
    SchemeEntry{"optimistic/crc64", kOptimistic, kLatchEquivalent, kAlways, make<Crc64>},
    SchemeEntry{"optimistic/crc64+ideal", kModelOnly, kLatchEquivalent, kAlways, make_crc<Checksum::ideal>},
    SchemeEntry{"optimistic/farm", kOptimistic, kLatchEquivalent, kAlways, make<FarmLineVersions>},
    SchemeEntry{"optimistic/farm+v16", kOptimistic, kLatchEquivalent, kAlways, make_farm_v16},
    SchemeEntry{"optimistic/copy-on-write", kOptimistic, kLatchEquivalent, kAlways, make<CopyOnWrite>},
    SchemeEntry{"optimistic/two-read+write-unlatch", kOptimistic, kLatchEquivalent, kAscending,
                make_with_write_unlatch<TwoReadVersion>},
    SchemeEntry{"optimistic/crc64+write-unlatch", kOptimistic, kLatchEquivalent, kAscending,
                make_with_write_unlatch<Crc64>},
    SchemeEntry{"optimistic/farm+write-unlatch", kOptimistic, kLatchEquivalent, kAscending,
                make_with_write_unlatch<FarmLineVersions>},
    SchemeEntry{"optimistic/crc64+crc8", kModelOnly, kLatchEquivalent, kStrictOnly, make_crc<Checksum::crc8>},
    SchemeEntry{"broken/naive", kSpecimen, kLatchEquivalent, kStrictOnly, [] { return make_specimen("broken/naive"); }},
    SchemeEntry{"broken/bookend", kSpecimen, kConsistent, kStrictOnly, [] { return make_specimen("broken/bookend"); }},
    SchemeEntry{"broken/marking", kSpecimen, kConsistent, kStrictOnly, [] { return make_specimen("broken/marking"); }},
    SchemeEntry{"broken/overlapped-reads", kSpecimen, kLatchEquivalent, kStrictOnly,
                [] { return make_specimen("broken/overlapped-reads"); }},
    SchemeEntry{"broken/version-only-validation", kSpecimen, kLatchEquivalent, kStrictOnly,
                [] { return make_specimen("broken/version-only-validation"); }},
    SchemeEntry{"broken/rw-write-unlatch", kSpecimen, kExclusion, kNever,
                [] { return make_specimen("broken/rw-write-unlatch"); }},
    SchemeEntry{"broken/rw-async-cas-unlatch", kSpecimen, kExclusion, kNever,
                [] { return make_specimen("broken/rw-async-cas-unlatch"); }},
    SchemeEntry{"broken/rw-unfenced-shared-unlatch", kSpecimen, kConsistent, kStrictOnly,
                [] { return make_specimen("broken/rw-unfenced-shared-unlatch"); }},
    SchemeEntry{"broken/shared-buffer-async", kSpecimen, kExclusion, kNever,
                [] { return make_specimen("broken/shared-buffer-async"); }},
    SchemeEntry{"broken/ticket-write-unlatch", kSpecimen, kExclusion, kNever,
                [] { return make_specimen("broken/ticket-write-unlatch"); }},
    SchemeEntry{"broken/ticket-early-unlatch", kSpecimen, kExclusion, kNever,
                [] { return make_specimen("broken/ticket-early-unlatch"); }},
    SchemeEntry{"broken/mcs-early-hand-over", kSpecimen, kExclusion, kNever,
                [] { return make_specimen("broken/mcs-early-hand-over"); }},
};

// The same for schemes that need a switch.
constexpr std::array kSchemesAtSwitches = {
    SchemeEntry{"latch-switch", kLatch, kExclusion, kAlways, make<SwitchLatch>},
    SchemeEntry{"optimistic/switch", kOptimistic, kLatchEquivalent, kAlways, make<SwitchedVersion>},
    SchemeEntry{"broken/switch-latch-at-once", kSpecimen, kExclusion, kNever,
                [] { return make_specimen("broken/switch-latch-at-once"); }},
};

bool remove_suffix(std::string_view& name, std::string_view suffix) {
  const bool found = name.ends_with(suffix);
  name.remove_suffix(found ? suffix.size() : 0);
  return found;
}

}  // namespace

std::span<const SchemeEntry> schemes() { return kSchemes; }
std::span<const SchemeEntry> schemes_at_switches() { return kSchemesAtSwitches; }

SelectedScheme select_scheme(std::string_view name) {
  std::string_view base = name;
  const bool header = remove_suffix(base, "+header");
  const bool footer = remove_suffix(base, "+footer");
  const SchemeEntry* entry = nullptr;
  std::string known;
  for (const std::span<const SchemeEntry> some : {schemes(), schemes_at_switches()}) {
    for (const SchemeEntry& candidate : some) {
      entry = candidate.name == base ? &candidate : entry;
      known += known.empty() ? "" : ", ";
      known += candidate.name;
    }
  }
  if (entry == nullptr) {
    throw std::invalid_argument(
        fmt::format("there is no scheme {}: the names are {}; each may end in +header or +footer", name, known));
  }
  SelectedScheme selected{entry, entry->make(), LayoutKind::padded};
  selected.layout = header   ? LayoutKind::padded
                    : footer ? LayoutKind::padded_footer
                             : selected.scheme->default_layout();
  return selected;
}

}  // namespace sidelatch::checker
