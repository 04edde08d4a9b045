#include "timers.h"

#include "queue_pair.h"

namespace sidelatch::softnic::nic {

void Timers::put(std::size_t place, const Entry& entry) noexcept {
  heap_[place] = entry;
  entry.queue_pair->timer_place = place;
}

void Timers::move_up(std::size_t place, const Entry& entry) noexcept {
  while (place != 0 && entry.at < heap_[(place - 1) / 2].at) {
    put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  put(place, entry);
}

void Timers::move_down(std::size_t place, const Entry& entry) noexcept {
  for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
    if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) {
      ++child;
    }
    if (entry.at <= heap_[child].at) {
      break;
    }
    put(place, heap_[child]);
    place = child;
  }
  put(place, entry);
}

void Timers::set(QueuePair& queue_pair, Time at) {
  if (queue_pair.timer_place == QueuePair::kNoTimer) {
    if (at == kNever) {
      return;
    }
    heap_.push_back({});
    move_up(heap_.size() - 1, {at, &queue_pair});
    return;
  }
  const std::size_t place = queue_pair.timer_place;
  if (heap_[place].at == at) {
    return;
  }
  Entry moved{at, &queue_pair};
  if (at == kNever) {
    // The last entry takes its place.
    queue_pair.timer_place = QueuePair::kNoTimer;
    moved = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) {
      return;
    }
  }
  if (place != 0 && moved.at < heap_[(place - 1) / 2].at) {
    move_up(place, moved);
  } else {
    move_down(place, moved);
  }
}

}  // namespace sidelatch::softnic::nic
