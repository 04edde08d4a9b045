// OwnRead: a READ of a node by itself, through its NIC. When it returns, what the NIC had acknowledged before is placed
// (memory model, rule 2). Thread-safety: none.
#pragma once

#include "port.h"

#include <array>
#include <cstddef>

namespace sidelatch::fabric::verbs {

class OwnRead {
 public:
  /// Both outlive this object. Makes nothing before the first run().
  OwnRead(const Port& port, ibv_pd* domain) : port_(&port), domain_(domain) {}
  OwnRead(const OwnRead&) = delete;
  OwnRead& operator=(const OwnRead&) = delete;
  ~OwnRead() = default;

  /// Waits in the calling thread. Throws DeviceError; the next call begins anew.
  void run();

 private:
  void make();

  const Port* port_;
  ibv_pd* domain_;
  alignas(8) std::array<std::byte, 16> bytes_{};  // from the second half to the first
  CompletionQueue completions_;
  MemoryRegistration memory_;
  RawQueuePair reader_;
  RawQueuePair read_;
};

}  // namespace sidelatch::fabric::verbs
