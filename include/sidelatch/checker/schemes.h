// The registry of schemes: one line each in checker/schemes.cpp. `check`, `explore`, `bench` and the tests read it.
//
//   SelectedScheme chosen = select_scheme("optimistic/farm+write-unlatch");
//   Layout layout(chosen.scheme->shape(256, chosen.layout), chosen.layout, 1000);
//
// Thread-safety: the registry is constant.
#pragma once

#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/sync/scheme.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace sidelatch::checker {

/// What a scheme promises its readers. All schemes make the same promises to their writers.
enum class Promise : std::uint8_t {
  exclusion,         ///< a latch: nobody writes while someone reads
  latch_equivalent,  ///< see sync::Semantics
  consistent,
};

enum class Kind : std::uint8_t {
  latch,
  queue,  ///< a latch whose waiters stand in a queue: without leases, and without time-outs while they wait
  optimistic,
  specimen,    ///< known to be wrong: for testing checkers
  model_only,  ///< a variant that only the explorer can make use of
};

struct SchemeEntry {
  std::string_view name;  ///< as on the command line
  Kind kind = Kind::optimistic;
  Promise promise = Promise::latch_equivalent;
  /// Whether the scheme should keep its promises, by preset: strict, observed, spec, relaxed. `explore` confirms each
  /// entry for small programs (docs/verdicts.md); tests/sync/behaviour_test.cpp simulates larger ones.
  std::array<bool, 4> safe{};
  std::unique_ptr<sync::Scheme> (*make)() = nullptr;

  [[nodiscard]] bool safe_under(fabric::model::Preset preset) const {
    return safe.at(static_cast<std::size_t>(preset));
  }
  /// What the scheme needs besides a memory node.
  [[nodiscard]] sync::LatchPlace place() const { return make()->place(); }
  /// Whether tears are expected on a NIC like those that the papers measured.
  [[nodiscard]] bool known_broken() const { return !safe_under(fabric::model::Preset::observed); }
};

/// Those that need nothing but a memory node.
[[nodiscard]] std::span<const SchemeEntry> schemes();
/// Those that keep latches or versions at a switch (place()); docs/switch.md.
[[nodiscard]] std::span<const SchemeEntry> schemes_at_switches();

struct SelectedScheme {
  const SchemeEntry* entry = nullptr;
  std::unique_ptr<sync::Scheme> scheme;
  sync::LayoutKind layout = sync::LayoutKind::padded;
};

/// The scheme called `name`, which may end in "+header" or "+footer" to choose another layout than the scheme's own.
/// Throws std::invalid_argument that lists the names.
[[nodiscard]] SelectedScheme select_scheme(std::string_view name);

}  // namespace sidelatch::checker
