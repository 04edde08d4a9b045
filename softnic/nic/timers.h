// Timers: which queue pair has to be looked at when. Each has at most one entry.
//
// A binary heap in which every queue pair knows its place, so that a deadline can be moved. Thread-safety: none.
#pragma once

#include "nic_time.h"

#include <cstddef>
#include <vector>

namespace sidelatch::softnic::nic {

class QueuePair;

class Timers {
 public:
  /// The deadline of a queue pair is `at` from now on; kNever: it has none.
  void set(QueuePair& queue_pair, Time at);
  /// The earliest deadline; kNever if there is none.
  [[nodiscard]] Time next() const noexcept { return heap_.empty() ? kNever : heap_.front().at; }
  /// Whose it is; there is one.
  [[nodiscard]] QueuePair& first() const noexcept { return *heap_.front().queue_pair; }

 private:
  struct Entry {
    Time at = kNever;
    QueuePair* queue_pair = nullptr;
  };

  void put(std::size_t place, const Entry& entry) noexcept;
  void move_up(std::size_t place, const Entry& entry) noexcept;
  void move_down(std::size_t place, const Entry& entry) noexcept;

  std::vector<Entry> heap_;
};

}  // namespace sidelatch::softnic::nic
