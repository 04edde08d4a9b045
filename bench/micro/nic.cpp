// The cost of the software NIC itself: two of them in one thread pass frames to each other without a wire, so one core
// does the work of both sides. Each counter is the best of many short runs.
#include "measure.h"

#include "softnic/nic/nic.h"

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace {

using namespace sidelatch::softnic::nic;
using sidelatch::bench::micro::best_seconds;

constexpr std::uint32_t kDepth = 16;
constexpr std::size_t kMemoryBytes = std::size_t{1} << 20;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

struct End {
  explicit End(std::uint8_t id)
      : nic({.mac = {2, 0, 0, 0, 0, id}, .gids = {gid_of({10, 0, 0, id})}}, access),
        domain(nic.make_domain()),
        completions(nic.make_completion_queue(2 * kDepth)),
        pair(nic.make_queue_pair({.domain = domain,
                                  .send_completions = &completions,
                                  .receive_completions = &completions,
                                  .send_depth = kDepth})),
        key(nic.register_memory({memory.data(), memory.size(), address(), domain, Rights::all})) {}
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory.data()); }

  void connect(const End& other) {
    using A = Attributes;
    pair.modify({.state = QueuePairState::init, .rights = Rights::all},
                A::state | A::p_key_index | A::port | A::rights);
    pair.modify(
        {.state = QueuePairState::rtr,
         .address = {.mac = other.nic.options().mac, .gid = other.nic.options().gids[0]},
         .path_mtu = PathMtu::b4096,
         .max_dest_rd_atomic = kDepth,
         .remote_qp = other.pair.number()},
        A::state | A::address | A::path_mtu | A::remote_qp | A::receive_psn | A::max_dest_rd_atomic | A::min_rnr_timer);
    pair.modify({.state = QueuePairState::rts, .timeout = 14, .retry_count = 7, .max_rd_atomic = kDepth},
                A::state | A::timeout | A::retry_count | A::rnr_retry | A::send_psn | A::max_rd_atomic);
  }

  std::vector<std::byte> memory = std::vector<std::byte>(kMemoryBytes);
  ImmediateAccess access;
  Nic nic;
  Domain domain;
  CompletionQueue& completions;
  QueuePair& pair;
  std::uint32_t key;
};

// A client that always has kDepth requests of one kind in flight.
class Connection {
 public:
  Connection() {
    client_.connect(server_);
    server_.connect(client_);
  }

  void complete(WorkKind kind, std::uint32_t length, std::uint32_t operations) {
    for (std::uint32_t completed = 0; completed < operations;) {
      post(kind, length);
      now_ += 1000;
      carry(client_, server_);
      carry(server_, client_);
      std::array<Completion, kDepth> taken;
      const std::size_t count = client_.completions.poll(taken);
      for (const Completion& each : std::span(taken).first(count)) {
        require(each.status == CompletionStatus::success);
      }
      on_their_way_ -= static_cast<std::uint32_t>(count);
      completed += static_cast<std::uint32_t>(count);
    }
  }

 private:
  void post(WorkKind kind, std::uint32_t length) {
    const Sge sge{client_.address(), length, client_.key};
    for (; on_their_way_ < kDepth; ++on_their_way_) {
      require(client_.pair.post_send({.kind = kind,
                                      .signaled = true,
                                      .sges = {&sge, 1},
                                      .remote_address = server_.address(),
                                      .rkey = server_.key}) == Post::done);
    }
  }
  void carry(End& from, End& to) {
    from.nic.advance(now_);
    while (const std::size_t bytes = from.nic.pull_frame(frame_, now_)) {
      to.nic.on_frame(std::span(frame_).first(bytes), now_);
    }
  }

  End client_{1};
  End server_{2};
  std::uint32_t on_their_way_ = 0;
  Time now_ = 0;
  std::array<std::byte, kFrameRoom> frame_{};
};

void run(benchmark::State& state, WorkKind kind, std::uint32_t length) {
  Connection connection;
  const auto work = [&] { connection.complete(kind, length, kDepth); };
  for (auto _ : state) {
    work();
  }
  const double seconds = best_seconds(work) / kDepth;
  state.counters["op/s"] = 1 / seconds;
  state.counters["GB/s"] = length / seconds / 1e9;
}

void read_8(benchmark::State& state) { run(state, WorkKind::read, 8); }
void cas_8(benchmark::State& state) { run(state, WorkKind::compare_swap, 8); }
void write_8(benchmark::State& state) { run(state, WorkKind::write, 8); }
// Packets of 4 KiB.
void write_payload(benchmark::State& state) { run(state, WorkKind::write, static_cast<std::uint32_t>(state.range(0))); }
void read_payload(benchmark::State& state) { run(state, WorkKind::read, static_cast<std::uint32_t>(state.range(0))); }

BENCHMARK(read_8);
BENCHMARK(cas_8);
BENCHMARK(write_8);
BENCHMARK(write_payload)->Arg(4096)->Arg(65536);
BENCHMARK(read_payload)->Arg(4096)->Arg(65536);

}  // namespace
