// The commands that librdmacm writes to an event channel: the kernel's binary interface <rdma/rdma_user_cm.h>.
//
//   const ssize_t written = write_command(service, descriptor, bytes, count);     // as write(2)
//
// Errors are those of Linux's rdma_ucm. Responses go to the address that the command names.
//
// Thread-safety: any thread may call.
#pragma once

#include "connection_service.h"

#include <sys/types.h>

#include <cstddef>

namespace sidelatch::softnic::verbs {

/// Returns `count`. Throws VerbsError, QuietError and cm::IdError.
[[nodiscard]] ssize_t write_command(ConnectionService& service, int descriptor, const void* bytes, std::size_t count);

}  // namespace sidelatch::softnic::verbs
