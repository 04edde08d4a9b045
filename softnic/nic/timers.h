// Timers: the deadlines of queue pairs. Each queue pair has at most one entry.
//
// A binary heap in which every queue pair knows its place, so a deadline can be moved. Thread-safety: none.
#pragma once

#include "nic_time.h"

#include <cstddef>
#include <vector>

namespace sidelatch::softnic::nic {

class QueuePair;

class Timers {
 public:
  /// Sets the deadline of a queue pair to `at`; kNever: none.
  void set(QueuePair& queue_pair, Time at);
  /// The earliest deadline; kNever if there is none.
  [[nodiscard]] Time next() const noexcept { return heap_.empty() ? kNever : heap_.front().at; }
  /// The queue pair with the earliest deadline, which must exist.
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
