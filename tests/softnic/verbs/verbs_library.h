// The functions of libsidelatch-verbs.so without preloading, for tests that call them in this process.
//
//   const Verbs& verbs = Verbs::load();
//   ibv_context* const context = verbs.open_device(device);
//   ibv_post_send(pair, &request, &refused);     // inline functions of verbs.h go through the context, which is ours
//
// load() also gives the process its own wire.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

namespace sidelatch::softnic {

struct Verbs {
  [[nodiscard]] static const Verbs& load();

  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_guid) get_device_guid;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_import_device) import_device;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_query_gid) query_gid;
  decltype(&::ibv_query_pkey) query_pkey;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_import_pd) import_pd;
  decltype(&::ibv_unimport_pd) unimport_pd;
  decltype(&::ibv_reg_mr) reg_mr;
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2;
  decltype(&::ibv_rereg_mr) rereg_mr;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_import_mr) import_mr;
  decltype(&::ibv_unimport_mr) unimport_mr;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_resize_cq) resize_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_create_srq) create_srq;
  decltype(&::ibv_modify_srq) modify_srq;
  decltype(&::ibv_query_srq) query_srq;
  decltype(&::ibv_destroy_srq) destroy_srq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_qp_to_qp_ex) qp_to_qp_ex;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_query_qp) query_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_query_ece) query_ece;
  decltype(&::ibv_create_ah) create_ah;
  decltype(&::ibv_destroy_ah) destroy_ah;
  decltype(&::ibv_attach_mcast) attach_mcast;
  decltype(&::ibv_detach_mcast) detach_mcast;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  // Of librdmacm's event channels.
  decltype(&::open) open;
  decltype(&::write) write;
  decltype(&::close) close;
};

}  // namespace sidelatch::softnic
