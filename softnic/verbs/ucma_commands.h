// The commands that librdmacm writes to an event channel: the kernel's binary interface <rdma/rdma_user_cm.h>.
//
//   const ssize_t written = write_command(service, descriptor, bytes, count, waiter);     // as write(2)
//   if (waiter) waiter->wait() ...                     // the command asks for an event: wait outside, and call again
//
// Errors are those of Linux's rdma_ucm. Responses go to the address that the command names.
//
// Thread-safety: any thread may call.
#pragma once

#include "connection_service.h"

#include <sys/types.h>

#include <cstddef>
#include <optional>

namespace sidelatch::softnic::verbs {

/// Returns `count`. Throws VerbsError and cm::IdError. Pass an empty `waiter` at first, and afterwards what it became.
[[nodiscard]] ssize_t write_command(ConnectionService& service, int descriptor, const void* bytes, std::size_t count,
                                    std::optional<EventChannels::Waiter>& waiter);

}  // namespace sidelatch::softnic::verbs
