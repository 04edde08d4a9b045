#include <sidelatch/checker/closed_loop.h>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace sidelatch::checker {

using namespace fabric;

namespace {

Task<void> worker(QueuePair& qp, WorkRequest request, Windows& windows, ClosedLoopResult& result) {
  Reactor& reactor = qp.reactor();
  for (;;) {
    const Time started = reactor.now();
    if (windows.over(started)) {
      co_return;
    }
    co_await qp.submit(request);
    const Time ended = reactor.now();
    if (windows.count(ended)) {
      ++result.operations;
      result.total_wait += ended - started;
    }
  }
}

}  // namespace

std::uint64_t memory_bytes(const ClosedLoop& loop) {
  if (loop.bytes == 0 || loop.bytes % 8 != 0 || (is_atomic(loop.opcode) && loop.bytes != 8)) {
    throw std::invalid_argument(
        fmt::format("a closed loop of {} with {} bytes: it must be a multiple of 8, and 8 for an atomic",
                    name(loop.opcode), loop.bytes));
  }
  std::uint64_t bytes = loop.bytes;
  for (std::uint32_t w = 0; w < loop.workers; ++w) {
    const std::uint64_t offset = loop.offset(w);
    if (offset % 8 != 0) {
      throw std::invalid_argument(
          fmt::format("worker {}'s word lies at offset {}: it must be a multiple of 8", w, offset));
    }
    bytes = std::max(bytes, offset + loop.bytes);
  }
  return bytes;
}

ClosedLoopResult run_closed_loop(Node& storage, std::span<Node* const> clients, const ClosedLoop& loop) {
  const MemoryRegion words = storage.allocate(memory_bytes(loop), Access::remote_all);
  return run_closed_loop(storage, words.remote(), clients, loop);
}

ClosedLoopResult run_closed_loop(Node& storage, RemoteSpan words, std::span<Node* const> clients,
                                 const ClosedLoop& loop) {
  if (loop.workers == 0 || clients.empty()) {
    throw std::invalid_argument(fmt::format("a closed loop of {} workers on {} client nodes: both must be at least 1",
                                            loop.workers, clients.size()));
  }
  if (!is_atomic(loop.opcode) && loop.opcode != Opcode::read && loop.opcode != Opcode::write) {
    throw std::invalid_argument(
        fmt::format("a closed loop of {}: give CAS, FETCH-ADD, READ or WRITE", name(loop.opcode)));
  }
  if (loop.process >= loop.processes) {
    throw std::invalid_argument(fmt::format("process {} of {}: they are counted from 0", loop.process, loop.processes));
  }
  const std::uint64_t own = (loop.bytes + kLineBytes - 1) / kLineBytes * kLineBytes;  // of a worker, in its client
  std::vector<MemoryRegion> buffers;
  buffers.reserve(clients.size());
  for (Node* client : clients) {
    buffers.push_back(client->allocate(own * loop.workers, Access::local_write));
  }

  struct Worker {
    QueuePair* queue_pair;
    WorkRequest request;
  };
  std::vector<Worker> workers;
  std::vector<std::unique_ptr<QueuePair>> own_queue_pairs;
  std::vector<std::unique_ptr<QueuePair>>& queue_pairs =
      loop.queue_pairs != nullptr ? *loop.queue_pairs : own_queue_pairs;
  for (std::uint32_t w = loop.process; w < loop.workers; w += loop.processes) {
    const std::size_t c = w % clients.size();
    if (queue_pairs.size() == workers.size()) {
      QueuePairOptions options;
      options.send_queue_depth = 4;
      queue_pairs.push_back(clients[c]->connect(storage, options));
    }
    const RemoteSpan word = words.subspan(loop.offset(w), loop.bytes);
    const LocalSpan buffer = buffers[c].local(own * w, loop.bytes);
    WorkRequest request;
    if (loop.opcode == Opcode::read) {
      request = read(buffer, word);
    } else if (loop.opcode == Opcode::write) {
      request = write(buffer, word);
    } else if (loop.opcode == Opcode::compare_swap) {
      request = compare_swap(word, 0, 0);
    } else {
      request = fetch_add(word, 1);
    }
    workers.push_back({queue_pairs[workers.size()].get(), request});
  }
  loop.all_connected();
  ClosedLoopResult result;
  Reactor& reactor = storage.reactor();
  const Reactor::Scope tasks(reactor);
  Windows windows(reactor.now() + loop.warm_up, loop.measured);
  for (Worker& one : workers) {
    reactor.spawn(worker(*one.queue_pair, one.request, windows, result));
  }
  reactor.run();
  result.elapsed = loop.measured;
  result.windows = windows.counts();
  return result;
}

}  // namespace sidelatch::checker
