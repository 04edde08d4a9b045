// What the tests of RPC latches do in every world: increments that only the latch protects, and a core that is broken.
#pragma once

#include "bench/rpc_latch.h"

#include <cstring>

namespace sidelatch::bench {

/// `times` times, a READ and a WRITE of a counter under latch 0. `lost` counts the times when the client was no longer
/// the holder when it unlatched.
inline fabric::Task<void> increment(RpcLatchClient* latches, fabric::QueuePair* data, fabric::LocalSpan buffer,
                                    fabric::RemoteSpan counter, std::uint64_t times, std::uint64_t* lost) {
  for (std::uint64_t i = 0; i < times; ++i) {
    bool mine = false;
    while (!mine) {
      mine = co_await latches->latch(0);
    }
    co_await data->read(buffer, counter);
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.data, 8);
    ++value;
    std::memcpy(buffer.data, &value, 8);
    co_await data->write(buffer, counter);
    const bool was_mine = co_await latches->unlatch(0);
    *lost += was_mine ? 0U : 1U;
  }
}

/// The broken specimen: a core that does not check the word.
inline bool take_without_looking(std::uint64_t& word, const LatchRequest& request) {
  word = request.operation == LatchRequest::Operation::latch ? request.owner : 0;
  return true;
}

}  // namespace sidelatch::bench
