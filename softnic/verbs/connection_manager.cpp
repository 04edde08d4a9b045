// librdmacm is the kernel's connection manager, which this NIC does not have. Programs that use it are refused with
// ENODEV and a sentence on stderr that says what to do.
//
// Only the functions that a program calls first are here; the others need the results of these.
#include "export.h"
#include "guard.h"

#include <rdma/rdma_cma.h>

namespace {

constexpr const char* kRefusal =
    "there is no RDMA connection manager (librdmacm) on the software NIC: let the program exchange its addresses over "
    "TCP instead (perftest: without -R)";

int refuse() {
  sidelatch::softnic::verbs::complain(kRefusal);
  errno = ENODEV;
  return -1;
}

}  // namespace

SIDELATCH_VERBS_EXPORT rdma_event_channel* rdma_create_event_channel() {
  refuse();
  return nullptr;
}

SIDELATCH_VERBS_EXPORT int rdma_create_id(rdma_event_channel* /*channel*/, rdma_cm_id** /*id*/, void* /*user*/,
                                          rdma_port_space /*space*/) {
  return refuse();
}

SIDELATCH_VERBS_EXPORT int rdma_create_ep(rdma_cm_id** /*id*/, rdma_addrinfo* /*address*/, ibv_pd* /*domain*/,
                                          ibv_qp_init_attr* /*attributes*/) {
  return refuse();
}

SIDELATCH_VERBS_EXPORT int rdma_getaddrinfo(const char* /*node*/, const char* /*service*/,
                                            const rdma_addrinfo* /*hints*/, rdma_addrinfo** /*result*/) {
  return refuse();
}

SIDELATCH_VERBS_EXPORT ibv_context** rdma_get_devices(int* count) {
  if (count != nullptr) {
    *count = 0;
  }
  refuse();
  return nullptr;
}

SIDELATCH_VERBS_EXPORT int rsocket(int /*domain*/, int /*type*/, int /*protocol*/) { return refuse(); }
