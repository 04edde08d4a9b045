// What the two halves of VerbsQueuePair share: queue_pair.cpp posts, pair.cpp receives.
#pragma once

#include <cstdint>
#include <string_view>

namespace sidelatch::fabric::verbs {

inline constexpr std::string_view kOtherEnded = "the other end of the connection has ended";

[[nodiscard]] std::uint32_t random_packet_number();

}  // namespace sidelatch::fabric::verbs
