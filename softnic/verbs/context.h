// An opened device: the struct through which the inline functions of verbs.h call.
//
// It declares the operations that verbs.h reaches through ibv_context::ops and verbs_context, grouped by file. C code
// calls them, so they throw nothing, and return what the manual page of their ibv_ function says.
//
// Thread-safety: as usual for verbs, any thread may call anything.
#pragma once

#include "objects.h"

#include <infiniband/verbs.h>

#include <string_view>

namespace sidelatch::softnic::verbs {

/// The process's device, which is never destroyed.
[[nodiscard]] ibv_device& the_device() noexcept;

/// A context of the process's NIC. Throws like acquire().
[[nodiscard]] ibv_context* open_context();
/// A context of the device to which this cmd_fd belongs, which it takes over. Throws VerbsError: it is none, or of
/// another process.
[[nodiscard]] ibv_context* import_context(int descriptor);
/// Throws VerbsError (EINVAL) unless both contexts are of one opening of the device; `object` names what has the
/// second.
void require_same_opening(ibv_context& ours, ibv_context& its, std::string_view object);
/// With the last context of an opening: removes the program's remaining objects from the NIC, but keeps their memory:
/// the program may have pointers to them.
void close_context(Context& context);

// device_queries.cpp
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    std::size_t bytes);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t bytes);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
/// The EUI-64 of the MAC.
[[nodiscard]] __be64 guid_of(const roce::MacAddress& mac) noexcept;

// device_list.cpp
/// What ibv_get_device_guid() returned last, here or before fork() in a parent; 0: it was not called. librdmacm finds
/// its device by that.
[[nodiscard]] __be64 guid_as_told() noexcept;

// protection_domains.cpp
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* domain);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);

// xrc_domains.cpp
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes);
int close_xrcd(ibv_xrcd* domain);
/// Takes a handle of an XRC domain from the NIC, under its lock; the last one ends the domain. Throws NicError (busy),
/// and then changes nothing.
void end_xrc_handle(ProcessNic& nic, nic::Nic& device, std::uint32_t domain);

// memory_windows.cpp
ibv_mw* alloc_mw(ibv_pd* domain, ibv_mw_type type);
int bind_mw(ibv_qp* pair, ibv_mw* window, ibv_mw_bind* binding);
int dealloc_mw(ibv_mw* window);

// memory_regions.cpp
ibv_mr* alloc_null_mr(ibv_pd* domain);
int advise_mr(ibv_pd* domain, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* parts, std::uint32_t count);

// completion_queues.cpp
/// Makes a completion queue with room for `depth`, in the memory of `parent` if that has some of its own. Throws
/// NicError and VerbsError.
[[nodiscard]] CompletionQueue* make_completion_queue(Context& context, std::uint32_t depth, void* user,
                                                     ibv_comp_channel* channel, std::uint32_t vector,
                                                     ProtectionDomain* parent);
int poll_cq(ibv_cq* queue, int most, ibv_wc* completions);
int req_notify_cq(ibv_cq* queue, int solicited_only);

// completion_queues_ex.cpp
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);

// shared_receive_queues.cpp
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int get_srq_num(ibv_srq* queue, std::uint32_t* number);
int post_srq_recv(ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr** refused);

// queue_pairs.cpp
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes);
/// Takes a handle of a queue pair from the NIC, under its lock; the last one ends the queue pair. An XRC target may
/// have several, and outlives the one that it was made with.
void end_handle(QueuePair& handle, nic::Nic& device);

// posting.cpp
int post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused);
int post_recv(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** refused);

// queue_pairs_ex.cpp
/// The functions of ibv_qp_ex.
void fill_builder(QueuePair& pair) noexcept;

// unsupported.cpp
/// Sets functions for unsupported operations, which return the error.
void fill_unsupported(Context& context) noexcept;

}  // namespace sidelatch::softnic::verbs
