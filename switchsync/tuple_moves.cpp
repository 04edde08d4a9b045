#include <sidelatch/switchsync/tuple_moves.h>

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace sidelatch::switchsync {

namespace {

constexpr std::uint64_t kVersionBytes = 8;

class CacheHere final : public TupleCache {
 public:
  explicit CacheHere(OptimisticSwitch& control) : control_(&control) {}
  bool is_hot(std::uint32_t tuple) override { return control_->is_hot(tuple); }
  bool is_moving(std::uint32_t tuple) override { return control_->is_moving(tuple); }
  std::size_t room() override { return control_->room(); }
  std::optional<std::uint32_t> next_hot(std::uint32_t from) override { return control_->next_hot(from); }
  bool begin_to_heat(std::uint32_t tuple) override { return control_->begin_to_heat(tuple); }
  void end_to_heat(std::uint32_t tuple, std::uint64_t version) override { control_->end_to_heat(tuple, version); }
  std::optional<std::uint64_t> begin_to_cool(std::uint32_t tuple) override { return control_->begin_to_cool(tuple); }
  void end_to_cool(std::uint32_t tuple) override { control_->end_to_cool(tuple); }
  void give_up(std::uint32_t tuple) override {
    if (control_->is_moving(tuple)) {
      control_->give_up_move(tuple);
    }
  }

 private:
  OptimisticSwitch* control_;
};

// A READ waits for the WRITEs that were acknowledged before it was posted (memory model, rule 2).
class WordsByRequests final : public TupleWords {
 public:
  WordsByRequests(fabric::QueuePair& direct, fabric::RemoteSpan memory, fabric::LocalSpan buffer, std::uint32_t first,
                  std::uint64_t slot_bytes)
      : direct_(&direct), memory_(memory), buffer_(buffer), first_(first), slot_bytes_(slot_bytes) {}

  fabric::Task<std::uint64_t> read(std::uint32_t tuple) override {
    co_await direct_->read(buffer_.subspan(0, kVersionBytes), word_of(tuple));
    std::uint64_t word = 0;
    std::memcpy(&word, buffer_.data, sizeof word);
    co_return word;
  }
  fabric::Task<void> write(std::uint32_t tuple, std::uint64_t version) override {
    std::memcpy(buffer_.data, &version, sizeof version);
    co_await direct_->write(buffer_.subspan(0, kVersionBytes), word_of(tuple));
    static_cast<void>(co_await read(tuple));
  }

 private:
  [[nodiscard]] fabric::RemoteSpan word_of(std::uint32_t tuple) const {
    return memory_.subspan((tuple - first_) * slot_bytes_, kVersionBytes);
  }

  fabric::QueuePair* direct_;
  fabric::RemoteSpan memory_;
  fabric::LocalSpan buffer_;
  std::uint32_t first_;
  std::uint64_t slot_bytes_;
};

// Gives a move up, unless it has ended.
class Move {
 public:
  Move(TupleCache& cache, std::uint32_t tuple) : cache_(&cache), tuple_(tuple) {}
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;
  ~Move() { cache_->give_up(tuple_); }

 private:
  TupleCache* cache_;
  std::uint32_t tuple_;
};

}  // namespace

TupleMoves::TupleMoves(OptimisticSwitch& control, std::uint32_t first, fabric::QueuePair& direct,
                       fabric::RemoteSpan memory, fabric::LocalSpan buffer)
    : own_cache_(std::make_unique<CacheHere>(control)),
      own_words_(std::make_unique<WordsByRequests>(direct, memory, buffer, first, control.tuples(first).slot_bytes)),
      cache_(own_cache_.get()),
      words_(own_words_.get()),
      first_(first),
      count_(control.tuples(first).count) {
  if (!control.is_cache()) {
    throw std::logic_error("TupleMoves: the switch keeps the versions of all tuples (p4/switch_optimistic.p4)");
  }
  const std::uint64_t slot_bytes = control.tuples(first).slot_bytes;
  if (memory.length < count_ * slot_bytes || buffer.length < kVersionBytes) {
    throw std::invalid_argument(fmt::format("TupleMoves: {} bytes of memory for {} slots of {}, a buffer of {}",
                                            memory.length, count_, slot_bytes, buffer.length));
  }
}

TupleMoves::TupleMoves(TupleCache& cache, TupleWords& words, std::uint32_t first, std::uint64_t count)
    : cache_(&cache), words_(&words), first_(first), count_(count) {}

void TupleMoves::require(std::uint32_t tuple, const char* what) const {
  if (tuple < first_ || tuple - first_ >= count_) {
    throw std::invalid_argument(fmt::format("{}: tuple {} is not one of {} from {} on", what, tuple, count_, first_));
  }
}

fabric::Task<bool> TupleMoves::heat(std::uint32_t tuple) {
  require(tuple, "heat");
  if (cache_->is_moving(tuple)) {
    co_return false;
  }
  if (cache_->is_hot(tuple)) {
    co_return true;
  }
  if (cache_->room() == 0) {
    const bool has_room = co_await make_room();
    if (!has_room) {
      co_return false;
    }
  }
  if (!cache_->begin_to_heat(tuple)) {
    co_return false;
  }
  const Move move(*cache_, tuple);
  const std::uint64_t version = co_await words_->read(tuple);
  cache_->end_to_heat(tuple, version);
  co_return true;
}

fabric::Task<bool> TupleMoves::cool(std::uint32_t tuple) {
  require(tuple, "cool");
  if (cache_->is_moving(tuple)) {
    co_return false;
  }
  if (!cache_->is_hot(tuple)) {
    co_return true;
  }
  const std::optional<std::uint64_t> version = cache_->begin_to_cool(tuple);
  if (!version) {
    co_return false;
  }
  const Move move(*cache_, tuple);
  const std::uint64_t word = co_await words_->read(tuple);
  if (word != *version) {
    co_await words_->write(tuple, *version);
  }
  cache_->end_to_cool(tuple);
  co_return true;
}

fabric::Task<bool> TupleMoves::make_room() {
  const std::uint64_t begin = hand_;
  for (int round = 0; round < 2;) {
    const std::optional<std::uint32_t> tuple = cache_->next_hot(first_ + hand_);
    if (!tuple || *tuple - first_ >= count_ || (round == 1 && *tuple - first_ >= begin)) {
      hand_ = 0;  // from the first one to where this has begun
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
