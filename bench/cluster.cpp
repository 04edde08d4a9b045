#include <sidelatch/bench/cluster.h>

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/verbs/memory_server.h>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace sidelatch::bench {

using namespace fabric;

namespace {

using Clock = std::chrono::steady_clock;

// The board holds the number of processes and, for each of them, how many barriers it has reached and two values to be
// summed. The values alternate, because the slowest process may still read the last one when the next is written.
constexpr std::uint64_t kRanksAt = 0;
constexpr std::uint64_t kGoneAt = 8;  // number of processes that have left
constexpr std::uint64_t kSlotsAt = 64;
constexpr std::uint64_t kSlotBytes = 32;
constexpr std::uint64_t kArrivals = 0;
constexpr std::uint64_t kValues = 8;
constexpr std::uint64_t in_slot(std::uint64_t rank, std::uint64_t offset) {
  return kSlotsAt + rank * kSlotBytes + offset;
}
constexpr std::uint64_t kBoardBytes = in_slot(Cluster::kMostRanks, 0);

std::uint32_t number_in(const char* variable, const char* text) {
  std::uint32_t value = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc{} || end != all.data() + all.size()) {
    throw std::invalid_argument(
        fmt::format("the environment variable {} is '{}': it must be a whole number; give "
                    "--rank and --ranks instead",
                    variable, all));
  }
  return value;
}

Task<void> read_into(QueuePair* qp, LocalSpan buffer, RemoteSpan from) { co_await qp->read(buffer, from); }

Task<std::uint64_t> add(QueuePair* qp, RemoteSpan where, std::uint64_t addend) {
  const std::uint64_t old = co_await qp->fetch_add(where, addend);
  co_return old;
}

Task<std::uint64_t> claim(QueuePair* qp, RemoteSpan where) {
  const std::uint64_t old = co_await qp->compare_swap(where, 0, 1);
  co_return old;
}

// The value is visible before the arrival is counted. A WRITE is executed before the atomic behind it on the same queue
// pair (memory model, rule 5), and both lie in one line, so no READ samples the arrival without the value.
Task<void> write_and_add(QueuePair* qp, LocalSpan from, RemoteSpan value, RemoteSpan counter) {
  co_await qp->submit(write(from, value), fetch_add(counter, 1));
}

}  // namespace

std::optional<Rank> rank_from_environment() {
  struct Starter {
    const char* rank;
    const char* ranks;
  };
  constexpr std::array kStarters = {Starter{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    Starter{"PMI_RANK", "PMI_SIZE"}, Starter{"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const Starter& starter : kStarters) {
    const char* const rank = std::getenv(starter.rank);
    const char* const ranks = std::getenv(starter.ranks);
    if (rank == nullptr && ranks == nullptr) {
      continue;
    }
    if (rank == nullptr || ranks == nullptr) {
      // Slurm sets the number of tasks also for a batch script, which is not one of the tasks.
      if (std::string_view(starter.rank) == "SLURM_PROCID" && rank == nullptr) {
        continue;
      }
      throw std::invalid_argument(fmt::format("the environment has {} but not {}; give --rank and --ranks instead",
                                              rank == nullptr ? starter.ranks : starter.rank,
                                              rank == nullptr ? starter.rank : starter.ranks));
    }
    const Rank found{number_in(starter.rank, rank), number_in(starter.ranks, ranks)};
    if (found.rank >= found.ranks) {
      throw std::invalid_argument(
          fmt::format("the environment has {}={} and {}={}: ranks are counted from 0; give --rank and --ranks instead",
                      starter.rank, found.rank, starter.ranks, found.ranks));
    }
    return found;
  }
  return std::nullopt;
}

void Cluster::Options::validate() const {
  if (ranks == 0 || ranks > kMostRanks) {
    throw std::invalid_argument(fmt::format("--ranks {}: it must be 1 to {}", ranks, kMostRanks));
  }
  if (rank >= ranks) {
    throw std::invalid_argument(fmt::format("--rank {} of {}: ranks are counted from 0", rank, ranks));
  }
  if (run.empty() || run.size() > 100) {
    throw std::invalid_argument(fmt::format("--run '{}': it must be 1 to 100 characters", run));
  }
  if (measured <= Duration::zero() || warm_up < Duration::zero()) {
    throw std::invalid_argument("the time of a point must be above 0, and its warm-up not negative");
  }
}

struct Cluster::Parts {
  explicit Parts(const Options& the_options)
      : options(the_options),
        fabric({.device = options.device}),
        storage(fabric, options.server, verbs::RemoteOptions{.token = options.token}) {
    for (Node*& client : clients) {
      client = &fabric.add_node("client");
    }
    queue_pair = clients[0]->connect(storage);
    buffer = clients[0]->allocate(kBoardBytes, Access::local_write);
  }

  template <class T>
  T run(Task<T> task) {
    return fabric.reactor().run(std::move(task));
  }
  [[nodiscard]] std::string name_of(std::uint64_t memory) const { return fmt::format("{}/{}", options.run, memory); }
  [[nodiscard]] RemoteSpan word(std::uint64_t rank, std::uint64_t offset) const {
    return board.subspan(in_slot(rank, offset), 8);
  }
  [[nodiscard]] std::uint64_t read_word(std::uint64_t at) const {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.bytes().data() + at, sizeof value);
    return value;
  }
  void read_board() { run(read_into(queue_pair.get(), buffer.local(), board)); }

  // Waits until rank 0 has published the memory.
  RemoteSpan find(std::uint64_t memory) {
    for (const Clock::time_point deadline = Clock::now() + options.limit; Clock::now() < deadline;) {
      require_uninterrupted();
      if (const auto found = storage.find_region(name_of(memory))) {
        return *found;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    throw std::runtime_error(fmt::format("rank 0 of run '{}' has not come to {} within {} s", options.run,
                                         options.server, options.limit.count()));
  }

  void join() {
    if (options.rank == 0) {
      own_board = storage.allocate(kBoardBytes, Access::remote_all);
      board = own_board.remote();
      run(add(queue_pair.get(), board.subspan(kRanksAt, 8), options.ranks));
      storage.publish(name_of(0), own_board);
    } else {
      board = find(0);
    }
    read_board();
    const std::uint64_t ranks = read_word(kRanksAt);
    if (ranks != options.ranks) {
      throw std::runtime_error(
          fmt::format("rank {} of run '{}' counts {} processes, rank 0 counts {}: give all of them the same --ranks",
                      options.rank, options.run, options.ranks, ranks));
    }
    // If another process has that rank, the board stays unchanged.
    if (run(claim(queue_pair.get(), word(options.rank, kArrivals))) != 0) {
      throw std::runtime_error(
          fmt::format("there is a rank {} of run '{}' already: give each process a --rank of its "
                      "own, or another --run",
                      options.rank, options.run));
    }
    barriers = 1;
    wait_for_all();
  }

  void wait_for_all() {
    for (const Clock::time_point deadline = Clock::now() + options.limit;;) {
      require_uninterrupted();
      read_board();
      std::optional<std::uint64_t> missing;
      for (std::uint64_t rank = 0; rank < options.ranks; ++rank) {
        if (read_word(in_slot(rank, kArrivals)) < barriers) {
          missing = rank;
        }
      }
      if (!missing) {
        return;
      }
      if (Clock::now() >= deadline) {
        throw std::runtime_error(fmt::format("rank {} of {} has not come to the barrier within {} s", *missing,
                                             options.ranks, options.limit.count()));
      }
      std::this_thread::yield();
    }
  }

  void require_uninterrupted() const {
    if (options.interrupted != nullptr && options.interrupted->load(std::memory_order_relaxed)) {
      throw std::runtime_error("interrupted");
    }
  }

  // The board ends with rank 0, but the others may still read the last barrier's values.
  void leave() {
    if (options.rank != 0) {
      run(add(queue_pair.get(), board.subspan(kGoneAt, 8), 1));
      return;
    }
    constexpr auto kLimit = std::chrono::seconds(5);
    const Clock::time_point deadline = Clock::now() + kLimit;
    do {
      read_board();
    } while (read_word(kGoneAt) + 1 < options.ranks && Clock::now() < deadline);
  }

  void arrive(double mine) {
    std::memcpy(buffer.bytes().data(), &mine, sizeof mine);
    const std::uint64_t turn = barriers % 2;
    run(write_and_add(queue_pair.get(), buffer.local(0, 8), word(options.rank, kValues + turn * 8),
                      word(options.rank, kArrivals)));
    ++barriers;
    wait_for_all();
  }

  Options options;
  verbs::VerbsFabric fabric;
  verbs::RemoteNode storage;
  std::array<Node*, 4> clients{};
  std::unique_ptr<QueuePair> queue_pair;
  MemoryRegion buffer;
  MemoryRegion own_board;  // rank 0 only
  RemoteSpan board;
  std::uint64_t barriers = 0;
  std::uint64_t memories = 0;
};

Cluster::Cluster(const Options& options) : exceptions_(std::uncaught_exceptions()) {
  options.validate();
  parts_ = std::make_unique<Parts>(options);
  parts_->join();
}

Cluster::~Cluster() {
  if (std::uncaught_exceptions() > exceptions_) {
    return;
  }
  try {
    parts_->leave();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the server has gone, and the board with it
  }
}

const Cluster::Options& Cluster::options() const noexcept { return parts_->options; }
const std::string& Cluster::device() const noexcept { return parts_->fabric.device_name(); }
Node& Cluster::storage() noexcept { return parts_->storage; }
std::span<Node* const> Cluster::clients() noexcept { return parts_->clients; }

void Cluster::barrier() { parts_->arrive(0); }

double Cluster::sum(double mine) {
  const std::uint64_t turn = parts_->barriers % 2;
  parts_->arrive(mine);
  double all = 0;
  for (std::uint64_t rank = 0; rank < parts_->options.ranks; ++rank) {
    double one = 0;
    std::memcpy(&one, parts_->buffer.bytes().data() + in_slot(rank, kValues + turn * 8), sizeof one);
    all += one;
  }
  return all;
}

Cluster::SharedMemory::SharedMemory(Cluster& cluster, std::uint64_t bytes) {
  Parts& parts = *cluster.parts_;
  const std::uint64_t memory = ++parts.memories;
  if (parts.options.rank == 0) {
    region_ = parts.storage.allocate(bytes, Access::remote_all);
    parts.storage.publish(parts.name_of(memory), region_);
    span_ = region_.remote();
  } else {
    span_ = parts.find(memory);
  }
}

}  // namespace sidelatch::bench
