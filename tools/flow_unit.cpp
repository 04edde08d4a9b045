// A unit of `sidelatch flow`: a process with a NIC, a queue pair for each ring, and a loop that pushes items,
// or pops and checks them.
#include "commands.h"
#include "flow_board.h"
#include "no_system_calls.h"

#include <sidelatch/flows/nic/flow_nic.h>
#include <sidelatch/flows/ring.h>

#include <fmt/format.h>

#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

namespace sidelatch::tools {

namespace {

// The NIC, its rings and their connections live as long as the process.
flows::FlowNic& set_up(const FlowTask& task, FlowUnitRow& row, std::uint32_t rings) {
  static flows::FlowNic nic(row.device.data());
  row.mac = nic.mac();
  row.ip = nic.ip();
  for (std::uint32_t i = 0; i < rings; ++i) {
    const flows::FlowRing& ring = nic.add_ring(task.shape, row.ends[i], task.switch_ip, task.path_mtu);
    row.addresses[i] = ring.address;
    row.queue_pairs[i] = ring.queue_pair;
    row.rkeys[i] = ring.rkey;
  }
  return nic;
}

// Waits by looking again; yields the CPU, unless system calls are forbidden.
class FlowPatience {
 public:
  explicit FlowPatience(bool may_yield) : may_yield_(may_yield) {}
  void wait() noexcept {
    if (++waits_ > kSpins && may_yield_) {
      ::sched_yield();
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void reset() noexcept { waits_ = 0; }

 private:
  static constexpr std::uint64_t kSpins = 200;
  bool may_yield_;
  std::uint64_t waits_ = 0;
};

class ProducingUnit {
 public:
  ProducingUnit(const FlowTask& task, FlowUnitRow& row, const flows::FlowNic& nic)
      : task_(task), row_(row), patience_(!task.no_system_calls) {
    for (std::uint32_t i = 0; i < task.rings_of_producer(); ++i) {
      rings_.push_back(std::make_unique<flows::Producer>(nic.memory(i), task.shape));
    }
    mistake_ = row.number == 0 ? task.mistake : FlowMistake::none;
  }

  void run() {
    for (std::uint64_t number = 0; number < task_.items; ++number) {
      if (mistake_ != FlowMistake::none && number == task_.items / 2) {
        number = err(number);
      } else {
        push(number, number);
      }
      row_.items.store(number + 1, std::memory_order_relaxed);
    }
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (!is_broken(i)) {
        rings_[i]->end();
      }
    }
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      patience_.reset();
      while (!is_broken(i) && !is_drained(i)) {
        patience_.wait();
      }
    }
  }

 private:
  void push(std::uint64_t number, std::uint64_t written) {
    const std::size_t at = task_.kind == flows::FlowKind::shuffle ? task_.consumer_of(number) : 0;
    if (is_broken(at)) {
      return;  // its consumer has died
    }
    flows::Producer& ring = *rings_[at];
    std::span<std::byte> free;
    try {
      for (free = ring.reserve(); free.empty(); free = ring.reserve()) {
        patience_.wait();
      }
    } catch (const flows::FlowBroken&) {
      note_broken(at);
      return;
    }
    patience_.reset();
    fill_item(free.first(task_.shape.item_bytes), row_.number, written);
    if (mistake_ == FlowMistake::torn && number == task_.items / 2) {
      free[task_.shape.item_bytes - 1] ^= std::byte{1};
    }
    ring.commit(1);
  }

  // Whether a consumer was meant to die is judged by the switch's process.
  [[nodiscard]] bool is_broken(std::size_t ring) const { return (row_.broken_rings >> ring & 1U) != 0; }
  void note_broken(std::size_t ring) { row_.broken_rings |= std::uint32_t{1} << ring; }
  bool is_drained(std::size_t ring) {
    try {
      return rings_[ring]->is_drained();
    } catch (const flows::FlowBroken&) {
      note_broken(ring);
      return true;
    }
  }

  // Returns the number of the last item that has been pushed.
  std::uint64_t err(std::uint64_t number) {
    switch (mistake_) {
      case FlowMistake::lost:
        break;
      case FlowMistake::twice:
        push(number, number);
        push(number, number);
        break;
      case FlowMistake::swapped: {
        std::uint64_t other = number + 1;  // of the same ring
        while (task_.consumer_of(other) != task_.consumer_of(number)) {
          ++other;
        }
        push(number, other);
        for (std::uint64_t between = number + 1; between < other; ++between) {
          push(between, between);
        }
        push(other, number);
        return other;
      }
      case FlowMistake::syscall:
        static_cast<void>(::getppid());
        push(number, number);
        break;
      default:
        push(number, number);
    }
    return number;
  }

  const FlowTask& task_;
  FlowUnitRow& row_;
  FlowPatience patience_;
  FlowMistake mistake_;
  std::vector<std::unique_ptr<flows::Producer>> rings_;
};

class ConsumingUnit {
 public:
  ConsumingUnit(FlowBoard& board, FlowUnitRow& row, std::span<std::byte> memory)
      : board_(board), task_(board.task()), row_(row), patience_(!task_.no_system_calls), ring_(memory, task_.shape) {
    if (task_.kind == flows::FlowKind::shuffle) {
      for (std::uint32_t i = 0; i < task_.producers; ++i) {
        skip_others(row_.next[i]);
      }
    }
  }

  // Returns what is wrong, if anything is.
  std::optional<std::string> run() {
    const std::size_t stride = task_.shape.stride();
    std::uint64_t popped = 0;
    for (;;) {
      const std::span<const std::byte> present = look();
      if (present.empty()) {
        if (is_over_) {
          break;
        }
        patience_.wait();
        continue;
      }
      patience_.reset();
      const std::size_t count = present.size() / stride;
      for (std::size_t i = 0; i < count; ++i) {
        const auto item = present.subspan(i * stride, task_.shape.item_bytes);
        if (!is_right(item)) {
          return wrong(item, popped + i);
        }
      }
      ring_.release(static_cast<std::uint32_t>(count));
      popped += count;
      row_.items.store(popped, std::memory_order_relaxed);
    }
    if (task_.mistake == FlowMistake::chain && row_.number == 0) {
      ++row_.chain;
    }
    return std::nullopt;  // what has not come is judged by the switch's process
  }

 private:
  // All that is there. If that is nothing, is_over_ says whether more comes. The mark of a broken flow may come at any
  // time, so each look at the ring may throw.
  std::span<const std::byte> look() {
    try {
      const std::span<const std::byte> present = ring_.peek();
      is_over_ = present.empty() && (leaves_replicated() || ring_.has_ended());
      return present;
    } catch (const flows::FlowBroken&) {
      row_.is_broken = true;
      is_over_ = true;
      return {};
    }
  }
  // The switch tells such a unit nothing.
  [[nodiscard]] bool leaves_replicated() const {
    return task_.kind == flows::FlowKind::replicate && row_.fate.load(std::memory_order_relaxed) == FlowFate::leaves;
  }

  void skip_others(std::uint64_t& number) const {
    while (number < task_.items && task_.consumer_of(number) != row_.number) {
      ++number;
    }
  }

  bool is_right(std::span<const std::byte> item) {
    const auto [producer, number] = name_of_item(item);
    if (producer >= task_.producers || number >= task_.items || !is_whole_item(item)) {
      return false;
    }
    std::uint64_t& next = row_.next[producer];
    if (task_.kind == flows::FlowKind::balance) {
      if (number < next) {
        return false;  // the same item again, or an older one
      }
      ++row_.came[producer];
      board_.got(row_.number, producer)[number / 64] |= std::uint64_t{1} << (number % 64);
      next = number + 1;
      return true;
    }
    if (number != next) {
      return false;
    }
    ++next;
    ++row_.came[producer];
    if (task_.kind == flows::FlowKind::shuffle) {
      skip_others(next);
    } else {
      row_.chain = (row_.chain ^ (std::uint64_t{producer} << 48U | number)) * 0x9e37'79b9'7f4a'7c15U;
      row_.chain ^= row_.chain >> 29U;
    }
    return true;
  }

  [[nodiscard]] std::string wrong(std::span<const std::byte> item, std::uint64_t place) const {
    const auto [producer, number] = name_of_item(item);
    if (producer >= task_.producers || number >= task_.items || !is_whole_item(item)) {
      return fmt::format("torn: the item at place {} is not whole; it begins as number {} of producer {}", place,
                         number, producer);
    }
    const std::uint64_t next = row_.next[producer];
    if (number < next) {
      return fmt::format(
          "twice, or out of order: number {} of producer {} came at place {}, where {} or a later one was "
          "to come",
          number, producer, place, next);
    }
    if (task_.kind == flows::FlowKind::shuffle && task_.consumer_of(number) != row_.number) {
      return fmt::format("number {} of producer {} is for consumer {}", number, producer, task_.consumer_of(number));
    }
    return fmt::format("lost, or out of order: number {} of producer {} came at place {}, where {} was to come", number,
                       producer, place, next);
  }

  FlowBoard& board_;
  const FlowTask& task_;
  FlowUnitRow& row_;
  FlowPatience patience_;
  flows::Consumer ring_;
  bool is_over_ = false;
};

FlowUnitPhase work(FlowBoard& board, FlowUnitRow& row) {
  const FlowTask& task = board.task();
  const flows::FlowNic& nic = set_up(task, row, row.is_producer ? task.rings_of_producer() : 1);
  std::optional<ProducingUnit> producer;
  std::optional<ConsumingUnit> consumer;
  if (row.is_producer) {
    producer.emplace(task, row, nic);
  } else {
    consumer.emplace(board, row, nic.memory(0));
  }
  if (task.no_system_calls) {
    forbid_system_calls(row.system_call);
  }
  row.phase.store(FlowUnitPhase::ready, std::memory_order_release);
  for (FlowPatience patience(!task.no_system_calls); !board.has_begun();) {
    patience.wait();
  }
  if (producer) {
    producer->run();
    row.end(FlowUnitPhase::done);
  } else if (const auto violation = consumer->run()) {
    row.end(FlowUnitPhase::violated, *violation);
  } else {
    row.end(FlowUnitPhase::done);
  }
  return row.phase.load();
}

}  // namespace

int run_flow_unit(const std::string& which) {
  int file = -1;
  std::uint32_t number = 0;
  const char* const end = which.data() + which.size();
  const auto [comma, error] = std::from_chars(which.data(), end, file);
  const bool is_one = error == std::errc{} && end - comma >= 3 && (comma[1] == 'p' || comma[1] == 'c') &&
                      std::from_chars(comma + 2, end, number).ptr == end && number < kMostFlowUnits;
  if (!is_one) {
    throw std::invalid_argument(fmt::format("--unit {}: `sidelatch flow` starts its units itself", which));
  }
  FlowBoard board(file);
  FlowUnitRow& row = comma[1] == 'p' ? board.producer(number) : board.consumer(number);
  FlowUnitPhase phase = FlowUnitPhase::failed;
  try {
    phase = work(board, row);
  } catch (const flows::FlowBroken& broken) {
    row.end(FlowUnitPhase::violated, broken.what());
  } catch (const std::exception& failure) {
    row.end(FlowUnitPhase::failed, failure.what());
  }
  // Nothing is destroyed: that would take system calls.
  ::_exit(phase == FlowUnitPhase::done ? kAsExpected : kNotAsExpected);
}

}  // namespace sidelatch::tools
