// Converts between the enumerations and structs of verbs.h and those of the NIC.
//
// convert.cpp asserts that numbers are equal where that is intended (completion statuses, states, attribute bits,
// rights).
//
// Thread-safety: functions without state.
#pragma once

#include "softnic/nic/attributes.h"
#include "softnic/nic/rights.h"
#include "softnic/nic/work.h"

#include <infiniband/verbs.h>

#include <optional>

namespace sidelatch::softnic::verbs {

[[nodiscard]] ibv_mtu mtu_of(roce::PathMtu mtu) noexcept;
/// Throws VerbsError (EINVAL).
[[nodiscard]] roce::PathMtu path_mtu_of(ibv_mtu mtu);

[[nodiscard]] roce::Gid gid_of(const ibv_gid& gid) noexcept;
[[nodiscard]] ibv_gid gid_of(const roce::Gid& gid) noexcept;

/// Nothing if the NIC does not support the operation.
[[nodiscard]] std::optional<nic::WorkKind> kind_of(ibv_wr_opcode opcode) noexcept;
/// The request without buffer and UD address.
[[nodiscard]] nic::SendRequest request_of(const ibv_send_wr& request, nic::WorkKind kind) noexcept;
/// The flags of a request, as far as the NIC knows them.
void take_flags(nic::SendRequest& request, unsigned flags) noexcept;
[[nodiscard]] nic::Sge sge_of(const ibv_sge& sge) noexcept;
[[nodiscard]] int errno_of(nic::Post post) noexcept;

[[nodiscard]] ibv_wc_status status_of(nic::CompletionStatus status) noexcept;
[[nodiscard]] ibv_wc_opcode opcode_of(nic::CompletionKind kind) noexcept;
[[nodiscard]] unsigned flags_of(const nic::Completion& completion) noexcept;
/// Immediate data in network byte order, or the invalidated key.
[[nodiscard]] __be32 immediate_of(const nic::Completion& completion) noexcept;
void fill(ibv_wc& into, const nic::Completion& completion) noexcept;

/// What a memory window is to open. Throws VerbsError (EINVAL).
[[nodiscard]] nic::Binding binding_of(const ibv_mw& window, std::uint32_t new_key, const ibv_mw_bind_info& info);

/// The rights of a region or a queue pair. Throws VerbsError (EINVAL) for unknown bits.
[[nodiscard]] nic::Rights rights_of(unsigned access);

/// The address without the Ethernet address. Throws VerbsError (EINVAL) if the attributes name no GID or another port.
[[nodiscard]] nic::AddressVector address_of(const ibv_ah_attr& attributes, std::size_t gids);
[[nodiscard]] ibv_ah_attr attributes_of(const nic::AddressVector& address) noexcept;

}  // namespace sidelatch::softnic::verbs
