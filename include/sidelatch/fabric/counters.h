// Counters of a queue pair's work, always on. Schemes are compared by them.
#pragma once

#include <cstdint>

namespace sidelatch::fabric {

struct Counters {
  std::uint64_t round_trips = 0;    ///< chains whose completion a task waited for
  std::uint64_t doorbells = 0;      ///< calls that reached the NIC
  std::uint64_t requests = 0;       ///< work requests posted
  std::uint64_t retries = 0;        ///< operations that a scheme had to retry; counted by the schemes
  std::uint64_t bytes_written = 0;  ///< payload of WRITE and SEND, and 8 for each atomic
  std::uint64_t bytes_read = 0;     ///< payload of READ, and 8 for each atomic
  std::uint64_t waits = 0;          ///< chains that had to wait for room in the send queue or completion queue
  std::uint64_t errors = 0;         ///< completions with an error, flushed ones not counted
  std::uint64_t receives = 0;       ///< receive buffers posted

  Counters& operator+=(const Counters& other) {
    round_trips += other.round_trips;
    doorbells += other.doorbells;
    requests += other.requests;
    retries += other.retries;
    bytes_written += other.bytes_written;
    bytes_read += other.bytes_read;
    waits += other.waits;
    errors += other.errors;
    receives += other.receives;
    return *this;
  }
};

}  // namespace sidelatch::fabric
