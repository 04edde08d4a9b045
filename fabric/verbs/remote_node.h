// The parts of RemoteNode that the other files of this folder need.
#pragma once

#include "queue_pair.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <memory>

namespace sidelatch::fabric::verbs {

/// The other end of a new connection to that node.
[[nodiscard]] std::unique_ptr<Peer> remote_peer(RemoteNode& node);
/// The other end of a queue pair that is connected to `node`. Throws std::invalid_argument, which begins with `what`,
/// if it is not.
[[nodiscard]] Peer& peer_of(const Node& node, QueuePair& queue_pair, const char* what);
/// Throws std::invalid_argument if the queue pair is not connected to `node`.
void revoke_connection(const Node& node, QueuePair& queue_pair);

}  // namespace sidelatch::fabric::verbs
