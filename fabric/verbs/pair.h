// What the parts of VerbsQueuePair share: queue_pair.cpp posts, pair.cpp receives, remote_node.cpp connects.
#pragma once

#include <cstdint>
#include <string_view>

namespace sidelatch::fabric::verbs {

inline constexpr std::string_view kOtherEnded = "the other end of the connection has ended";

/// The number of a connection's first packet. It is random, to keep packets of an earlier connection from being taken
/// for this one's.
[[nodiscard]] std::uint32_t random_packet_number();

}  // namespace sidelatch::fabric::verbs
