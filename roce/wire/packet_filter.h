// PacketFilter: a classic BPF program (Linux, Documentation/networking/filter.rst) for a wire on an interface. The
// kernel runs it on each frame before it copies the frame. It accepts RoCEv2 for our addresses, ARP, and neighbour
// discovery.
//
// Thread-safety: functions without state.
#pragma once

#include "roce/wire/wire.h"

#include <linux/filter.h>

#include <vector>

namespace sidelatch::roce {

[[nodiscard]] std::vector<sock_filter> packet_filter(const StationAddresses& own);

}  // namespace sidelatch::roce
