#include "specimens.h"

#include <sidelatch/sync/broken.h>

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string>

namespace sidelatch::sync {

namespace {

struct Specimen {
  std::string_view name;
  std::unique_ptr<Scheme> (*make)() = nullptr;
};

constexpr std::array kSpecimens = {
    Specimen{"broken/naive", broken::make_naive},
    Specimen{"broken/bookend", broken::make_bookend},
    Specimen{"broken/marking", broken::make_marking},
    Specimen{"broken/overlapped-reads", broken::make_overlapped_reads},
    Specimen{"broken/version-only-validation", broken::make_version_only_validation},
    Specimen{"broken/rw-write-unlatch", broken::make_rw_write_unlatch},
    Specimen{"broken/rw-async-cas-unlatch", broken::make_rw_async_cas_unlatch},
    Specimen{"broken/rw-unfenced-shared-unlatch", broken::make_rw_unfenced_shared_unlatch},
    Specimen{"broken/shared-buffer-async", broken::make_shared_buffer_async},
    Specimen{"broken/ticket-write-unlatch", broken::make_ticket_write_unlatch},
    Specimen{"broken/ticket-early-unlatch", broken::make_ticket_early_unlatch},
    Specimen{"broken/mcs-early-hand-over", broken::make_mcs_early_hand_over},
    Specimen{"broken/switch-latch-at-once", broken::make_switch_latch_at_once},
};

}  // namespace

std::unique_ptr<Scheme> make_specimen(std::string_view name) {
  std::string known;
  for (const auto& [known_name, make] : kSpecimens) {
    if (name == known_name) {
      return make();
    }
    known += known.empty() ? "" : ", ";
    known += known_name;
  }
  throw std::invalid_argument(fmt::format("there is no specimen {}: the names are {}", name, known));
}

}  // namespace sidelatch::sync
