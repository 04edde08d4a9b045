// Two software NICs whose frames are passed by hand, and operations between them.
#pragma once

#include "softnic/nic/nic.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sidelatch::softnic::nic {

class NicOperations {
 public:
  NicOperations();
  /// `times` of each: WRITE, READ, FETCH-ADD, SEND, and a WRITE whose first packet is lost.
  void run(int times);

 private:
  struct End {
    explicit End(std::uint8_t id);
    alignas(64) std::array<std::byte, 8192> bytes{};
    ImmediateAccess memory;
    Nic nic;
    Domain domain;
    CompletionQueue& completions;
    QueuePair& pair;
    std::uint32_t key;
  };

  void connect(End& end, const End& other);
  void operate(WorkKind kind, bool loses_first);

  End a_{1};
  End b_{2};
  Time now_ = 0;
  std::array<std::byte, kFrameRoom> frame_{};
};

}  // namespace sidelatch::softnic::nic
