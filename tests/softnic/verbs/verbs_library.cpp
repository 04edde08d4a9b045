#include "verbs_library.h"
#include "tests/paths.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace sidelatch::softnic {

namespace {

struct Found {
  void* address;
  template <class Function>
  operator Function*() const {  // NOLINT(google-explicit-constructor): so that it becomes what it initializes
    return reinterpret_cast<Function*>(address);
  }
};

Verbs load_library() {
  const std::string wire = "shm:verbs-" + std::to_string(::getpid());
  ::setenv("SIDELATCH_SOFTNIC_WIRE", wire.c_str(), 1);
  void* const library = ::dlopen(verbs_library_path(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(::dlerror());
  }
  const auto find = [library](const char* name) {
    void* const address = ::dlsym(library, name);
    if (address == nullptr) {
      throw std::runtime_error(::dlerror());
    }
    return Found{address};
  };
  return {.get_device_list = find("ibv_get_device_list"),
          .free_device_list = find("ibv_free_device_list"),
          .get_device_guid = find("ibv_get_device_guid"),
          .open_device = find("ibv_open_device"),
          .close_device = find("ibv_close_device"),
          .import_device = find("ibv_import_device"),
          .query_device = find("ibv_query_device"),
          .query_gid = find("ibv_query_gid"),
          .query_pkey = find("ibv_query_pkey"),
          .alloc_pd = find("ibv_alloc_pd"),
          .dealloc_pd = find("ibv_dealloc_pd"),
          .import_pd = find("ibv_import_pd"),
          .unimport_pd = find("ibv_unimport_pd"),
          .reg_mr = find("ibv_reg_mr"),
          .reg_mr_iova2 = find("ibv_reg_mr_iova2"),
          .rereg_mr = find("ibv_rereg_mr"),
          .dereg_mr = find("ibv_dereg_mr"),
          .import_mr = find("ibv_import_mr"),
          .unimport_mr = find("ibv_unimport_mr"),
          .reg_dmabuf_mr = find("ibv_reg_dmabuf_mr"),
          .create_comp_channel = find("ibv_create_comp_channel"),
          .destroy_comp_channel = find("ibv_destroy_comp_channel"),
          .get_cq_event = find("ibv_get_cq_event"),
          .ack_cq_events = find("ibv_ack_cq_events"),
          .create_cq = find("ibv_create_cq"),
          .resize_cq = find("ibv_resize_cq"),
          .destroy_cq = find("ibv_destroy_cq"),
          .create_srq = find("ibv_create_srq"),
          .modify_srq = find("ibv_modify_srq"),
          .query_srq = find("ibv_query_srq"),
          .destroy_srq = find("ibv_destroy_srq"),
          .create_qp = find("ibv_create_qp"),
          .qp_to_qp_ex = find("ibv_qp_to_qp_ex"),
          .modify_qp = find("ibv_modify_qp"),
          .query_qp = find("ibv_query_qp"),
          .destroy_qp = find("ibv_destroy_qp"),
          .query_ece = find("ibv_query_ece"),
          .create_ah = find("ibv_create_ah"),
          .destroy_ah = find("ibv_destroy_ah"),
          .attach_mcast = find("ibv_attach_mcast"),
          .detach_mcast = find("ibv_detach_mcast"),
          .get_async_event = find("ibv_get_async_event"),
          .ack_async_event = find("ibv_ack_async_event"),
          .open = find("open"),
          .write = find("write"),
          .close = find("close")};
}

}  // namespace

const Verbs& Verbs::load() {
  static const Verbs kVerbs = load_library();
  return kVerbs;
}

}  // namespace sidelatch::softnic
