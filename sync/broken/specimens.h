// Makes each specimen; each has a file of its own.
#pragma once

#include <sidelatch/sync/scheme.h>

#include <memory>

namespace sidelatch::sync::broken {

[[nodiscard]] std::unique_ptr<Scheme> make_naive();
[[nodiscard]] std::unique_ptr<Scheme> make_bookend();
[[nodiscard]] std::unique_ptr<Scheme> make_marking();
[[nodiscard]] std::unique_ptr<Scheme> make_overlapped_reads();
[[nodiscard]] std::unique_ptr<Scheme> make_version_only_validation();
[[nodiscard]] std::unique_ptr<Scheme> make_rw_write_unlatch();
[[nodiscard]] std::unique_ptr<Scheme> make_rw_async_cas_unlatch();
[[nodiscard]] std::unique_ptr<Scheme> make_rw_unfenced_shared_unlatch();
[[nodiscard]] std::unique_ptr<Scheme> make_shared_buffer_async();
[[nodiscard]] std::unique_ptr<Scheme> make_ticket_write_unlatch();
[[nodiscard]] std::unique_ptr<Scheme> make_ticket_early_unlatch();
[[nodiscard]] std::unique_ptr<Scheme> make_mcs_early_hand_over();
[[nodiscard]] std::unique_ptr<Scheme> make_switch_latch_at_once();

}  // namespace sidelatch::sync::broken
