// A unit of `sidelatch flow`: a process with a NIC, a queue pair for each ring, and a loop that pushes items,
// or pops and checks them.
#include "commands.h"
#include "flow_board.h"
#include "flow_nic.h"
#include "no_system_calls.h"

#include <sidelatch/flows/ring.h>

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

namespace sidelatch::tools {

namespace {

void need(bool is_right, const char* what) {
  if (!is_right) {
    throw std::runtime_error(fmt::format("{} failed: {}", what, std::strerror(errno)));
  }
}

// Registers the rings and connects a queue pair for each. All of it lives as long as the process.
std::span<std::byte> set_up(const FlowTask& task, FlowUnitRow& row, std::uint32_t rings) {
  const FlowUnitNic nic = open_flow_nic(row.device.data(), task.path_mtu);
  row.mac = nic.mac;
  row.ip = nic.ip;
  ibv_pd* const domain = ibv_alloc_pd(nic.context);
  ibv_cq* const completions = ibv_create_cq(nic.context, 1, nullptr, nullptr, 0);
  need(domain != nullptr && completions != nullptr, "ibv_alloc_pd or ibv_create_cq");

  const std::size_t from_ring_to_ring = (task.shape.bytes() + 4095) / 4096 * 4096;
  const std::size_t bytes = from_ring_to_ring * rings;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  need(memory != MAP_FAILED, "allocating the rings");
  const std::span<std::byte> all(static_cast<std::byte*>(memory), bytes);
  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  ibv_mr* const region = ibv_reg_mr(domain, memory, bytes, rights);
  need(region != nullptr, "ibv_reg_mr");
  row.rkey = region->rkey;
  for (std::uint32_t i = 0; i < rings; ++i) {
    const auto ring = all.subspan(i * from_ring_to_ring, from_ring_to_ring);
    flows::clear_ring(ring, task.shape);
    row.addresses[i] = reinterpret_cast<std::uintptr_t>(ring.data());
    row.queue_pairs[i] = connect_to_switch(nic, *domain, *completions, row.ends[i], task.switch_ip, task.path_mtu);
  }
  return all;
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
  ProducingUnit(const FlowTask& task, FlowUnitRow& row, std::span<std::byte> memory)
      : task_(task), row_(row), patience_(!task.no_system_calls) {
    const std::size_t bytes = memory.size() / task.rings_of_producer();
    for (std::uint32_t i = 0; i < task.rings_of_producer(); ++i) {
      rings_.push_back(std::make_unique<flows::Producer>(memory.subspan(i * bytes, bytes), task.shape));
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
        if (has_ended()) {
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
  // All that is there, or nothing if the flow is broken.
  std::span<const std::byte> look() {
    try {
      return ring_.peek();
    } catch (const flows::FlowBroken&) {
      row_.is_broken = true;
      return {};
    }
  }
  bool has_ended() {
    const bool is_replicated = task_.kind == flows::FlowKind::replicate;
    // Who leaves a replicated flow is told nothing by the switch.
    const bool leaves = is_replicated && row_.fate.load(std::memory_order_relaxed) == FlowFate::leaves;
    return row_.is_broken || leaves || ring_.has_ended();
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
};

FlowUnitPhase work(FlowBoard& board, FlowUnitRow& row) {
  const FlowTask& task = board.task();
  const std::span<std::byte> memory = set_up(task, row, row.is_producer ? task.rings_of_producer() : 1);
  std::optional<ProducingUnit> producer;
  std::optional<ConsumingUnit> consumer;
  if (row.is_producer) {
    producer.emplace(task, row, memory);
  } else {
    consumer.emplace(board, row, memory);
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
