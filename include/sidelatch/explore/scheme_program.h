// A program for the explorer that runs a synchronization scheme on one object: writers add one to it, readers read it,
// and the program judges what they saw.
//
//   const sync::TwoReadVersion scheme;
//   explore::Verdict verdict = explore::check(
//       explore::scheme_program(scheme, checker::Promise::latch_equivalent, {.writers = 1, .updates = 2, .readers =
//       1}),
//       {.rules = rules_of(Preset::spec)});
//
// Every word of the payload holds the number of updates that the object has seen. These are violations: a payload that
// mixes numbers, or has not the number of its version (torn-read); for a latch, a writer inside together with another
// client (mutual-exclusion); a number given twice, or a final object that differs from the result of the same updates
// one after another (lost-update); a number older than that of an update that ended before the operation began or, for
// a scheme that promises latch equivalence, before the validation (linearizability); a latch that stays taken
// (deadlock). They are checked in every order that is equivalent to the explored one.
#pragma once

#include <sidelatch/checker/schemes.h>
#include <sidelatch/explore/world.h>
#include <sidelatch/sync/scheme.h>

#include <cstdint>

namespace sidelatch::explore {

struct Workload {
  std::uint32_t writers = 1;
  std::uint32_t updates = 1;  ///< of each writer
  std::uint32_t readers = 0;
  std::uint32_t reads = 1;  ///< of each reader
  std::uint64_t lines = 3;  ///< of the object's record, 64 bytes each
  unsigned nics = 1;        ///< of the memory node; client i uses NIC i modulo this
  /// The first writer may crash. The others have owner ids and leases and take over.
  bool crash = false;
  /// With `crash`: whether taking over revokes the dead client's queue pair, as it must.
  bool revocation = true;
  /// Added to each word of the payload except the first, for every number after 0: gives other contents, for checksums
  /// that collide.
  std::uint64_t salt = 0;

  /// Throws std::invalid_argument that names the field, its value and what is allowed.
  void validate() const;
};

/// `scheme` must outlive the program. Throws std::invalid_argument if the workload is not possible for the scheme.
[[nodiscard]] Program scheme_program(const sync::Scheme& scheme, checker::Promise promise, const Workload& workload,
                                     sync::LayoutKind layout);
/// With the scheme's own layout.
[[nodiscard]] Program scheme_program(const sync::Scheme& scheme, checker::Promise promise, const Workload& workload);

}  // namespace sidelatch::explore
