#include <sidelatch/switchsync/tuple_moves.h>

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <stdexcept>

namespace sidelatch::switchsync {

namespace {

constexpr std::uint64_t kVersionBytes = 8;

// Gives a move up, unless it has ended.
class Move {
 public:
  Move(OptimisticSwitch& control, std::uint32_t tuple) : control_(&control), tuple_(tuple) {}
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;
  ~Move() {
    if (control_->is_moving(tuple_)) {
      control_->give_up_move(tuple_);
    }
  }

 private:
  OptimisticSwitch* control_;
  std::uint32_t tuple_;
};

}  // namespace

TupleMoves::TupleMoves(OptimisticSwitch& control, std::uint32_t first, fabric::QueuePair& direct,
                       fabric::RemoteSpan memory, fabric::LocalSpan buffer)
    : control_(&control),
      first_(first),
      slot_bytes_(control.tuples(first).slot_bytes),
      count_(control.tuples(first).count),
      direct_(&direct),
      memory_(memory),
      buffer_(buffer) {
  if (!control.is_cache()) {
    throw std::logic_error("TupleMoves: the switch keeps the versions of all tuples (p4/switch_optimistic.p4)");
  }
  if (memory.length < count_ * slot_bytes_ || buffer.length < kVersionBytes) {
    throw std::invalid_argument(fmt::format("TupleMoves: {} bytes of memory for {} slots of {}, a buffer of {}",
                                            memory.length, count_, slot_bytes_, buffer.length));
  }
}

fabric::RemoteSpan TupleMoves::word_of(std::uint32_t tuple) const {
  return memory_.subspan((tuple - first_) * slot_bytes_, kVersionBytes);
}

fabric::Task<std::uint64_t> TupleMoves::read_word(std::uint32_t tuple) {
  co_await direct_->read(buffer_.subspan(0, kVersionBytes), word_of(tuple));
  std::uint64_t word = 0;
  std::memcpy(&word, buffer_.data, sizeof word);
  co_return word;
}

fabric::Task<bool> TupleMoves::heat(std::uint32_t tuple) {
  if (tuple < first_ || tuple - first_ >= count_) {
    throw std::invalid_argument(fmt::format("heat: tuple {} is not one of {} from {} on", tuple, count_, first_));
  }
  if (control_->is_moving(tuple)) {
    co_return false;
  }
  if (control_->is_hot(tuple)) {
    co_return true;
  }
  if (control_->room() == 0) {
    const bool has_room = co_await make_room();
    if (!has_room) {
      co_return false;
    }
  }
  if (!control_->begin_to_heat(tuple)) {
    co_return false;
  }
  const Move move(*control_, tuple);
  const std::uint64_t version = co_await read_word(tuple);
  control_->end_to_heat(tuple, version);
  co_return true;
}

fabric::Task<bool> TupleMoves::cool(std::uint32_t tuple) {
  if (tuple < first_ || tuple - first_ >= count_) {
    throw std::invalid_argument(fmt::format("cool: tuple {} is not one of {} from {} on", tuple, count_, first_));
  }
  if (control_->is_moving(tuple)) {
    co_return false;
  }
  if (!control_->is_hot(tuple)) {
    co_return true;
  }
  const std::optional<std::uint64_t> version = control_->begin_to_cool(tuple);
  if (!version) {
    co_return false;
  }
  const Move move(*control_, tuple);
  const std::uint64_t word = co_await read_word(tuple);
  if (word != *version) {
    std::memcpy(buffer_.data, &*version, sizeof *version);
    co_await direct_->write(buffer_.subspan(0, kVersionBytes), word_of(tuple));
    static_cast<void>(co_await read_word(tuple));
  }
  control_->end_to_cool(tuple);
  co_return true;
}

fabric::Task<bool> TupleMoves::make_room() {
  const std::uint64_t begin = hand_;
  for (int round = 0; round < 2;) {
    const std::optional<std::uint32_t> tuple = control_->next_hot(first_ + hand_);
    if (!tuple || *tuple - first_ >= count_ || (round == 1 && *tuple - first_ >= begin)) {
      hand_ = 0;  // from the row's beginning to where this has begun
      ++round;
      continue;
    }
    hand_ = *tuple - first_ + 1;
    const bool is_cold = co_await cool(*tuple);
    if (is_cold) {
      co_return true;
    }
  }
  co_return false;
}

}  // namespace sidelatch::switchsync
