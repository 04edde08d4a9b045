// What a memory server knows of the switches before it, each by the number that it says hello with.
//
// If a switch ends, its clients' WRITEs may be in doubt. Their owners are remembered until they have settled that, so
// that the next switch can wait for them, even if it ends, too.
#pragma once

#include "exchange.h"

#include <cstdint>
#include <set>

namespace sidelatch::fabric::verbs {

class SwitchClients {
 public:
  /// False: another switch has taken the place of this one.
  [[nodiscard]] bool greet(std::uint64_t switch_id) {
    if (switch_id != 0 && !replaced_.contains(switch_id)) {
      known_.insert(switch_id);
    }
    return !replaced_.contains(switch_id);
  }
  /// All others are refused from now on.
  void take_over(std::uint64_t switch_id) {
    replaced_.insert(known_.begin(), known_.end());
    replaced_.erase(switch_id);
  }
  /// A connection of `owner` ends with its switch.
  void cut_off(std::uint16_t owner) {
    if (owner == 0) {
      has_others_ = true;
    } else {
      owners_.insert(owner);
    }
  }
  /// 0: nobody is waited for.
  void settle(std::uint16_t owner) {
    if (owner == 0) {
      owners_.clear();
      has_others_ = false;
    } else {
      owners_.erase(owner);
    }
  }
  [[nodiscard]] exchange::TakenOver unsettled() const {
    return {{owners_.begin(), owners_.end()}, static_cast<std::uint8_t>(has_others_ ? 1 : 0)};
  }

 private:
  std::set<std::uint64_t> known_;
  std::set<std::uint64_t> replaced_;
  std::set<std::uint16_t> owners_;
  bool has_others_ = false;
};

}  // namespace sidelatch::fabric::verbs
