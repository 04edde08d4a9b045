#include "rpc_latch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::bench {

using namespace fabric;

namespace {

// A core's reply.
enum class Reply : std::uint64_t { refused, done, no_such };

constexpr std::uint64_t kRequestBytes = sizeof(LatchRequest);
constexpr std::uint64_t kReplyBytes = sizeof(std::uint64_t);
// Offsets of request and reply in the buffers of either end.
constexpr std::uint64_t kRequestAt = 0;
constexpr std::uint64_t kReplyAt = 64;
constexpr std::uint64_t kBufferBytes = 128;

// A client has one request in flight at a time.
constexpr QueuePairOptions kOptions{.send_queue_depth = 4, .receive_queue_depth = 2};

void must_have_room(bool posted) {
  if (!posted) {
    throw std::logic_error("an RPC latch found its receive queue full: a client has more than one request out");
  }
}

// A client that has gone is not a failure of the server.
bool means_gone(const FabricError& error) {
  return error.status() == Status::disconnected || error.status() == Status::retry_exceeded ||
         error.status() == Status::flushed;
}

}  // namespace

bool compare_and_swap(std::uint64_t& word, const LatchRequest& request) {
  const bool latches = request.operation == LatchRequest::Operation::latch;
  std::uint64_t expected = latches ? 0 : request.owner;
  return std::atomic_ref(word).compare_exchange_strong(expected, latches ? request.owner : 0);
}

struct RpcLatchServer::Connection {
  Core* core;
  MemoryRegion buffers;
  std::unique_ptr<QueuePair> queue_pair;
};

RpcLatchServer::RpcLatchServer(Node& node, const RpcLatchServerOptions& options) : node_(&node), options_(options) {
  if (options.latches == 0) {
    throw std::invalid_argument("RpcLatchServerOptions::latches is 0: it must be at least 1");
  }
  words_ = node.allocate(options.latches * sizeof(std::uint64_t), Access::local_write);
  for (std::uint32_t i = 0; i < options.cores; ++i) {
    cores_.push_back(std::make_unique<Core>());
  }
}

RpcLatchServer::~RpcLatchServer() = default;

std::uint64_t& RpcLatchServer::word(std::uint64_t index) const {
  return reinterpret_cast<std::uint64_t*>(words_.bytes().data())[index];
}

std::uint64_t RpcLatchServer::holder(std::uint64_t index) const {
  if (index >= options_.latches) {
    throw std::out_of_range(fmt::format("there is no latch {}: the server has {}", index, options_.latches));
  }
  return word(index);
}

std::unique_ptr<QueuePair> RpcLatchServer::connect(Node& client) {
  if (options_.cores == 0) {
    cores_.push_back(std::make_unique<Core>());
  }
  auto [theirs, ours] = client.connect_pair(*node_, kOptions);
  auto connection = std::make_unique<Connection>();
  connection->core = cores_[connected_++ % cores_.size()].get();
  connection->buffers = node_->allocate(kBufferBytes, Access::local_write);
  connection->queue_pair = std::move(ours);
  must_have_room(connection->queue_pair->post_receive(connection->buffers.local(kRequestAt, kRequestBytes)));
  node_->reactor().spawn(serve(this, std::move(connection)));
  return std::move(theirs);
}

std::uint64_t RpcLatchServer::answer(const LatchRequest& request) {
  if (request.index >= options_.latches) {
    return static_cast<std::uint64_t>(Reply::no_such);
  }
  const bool done = options_.operation(word(request.index), request);
  return static_cast<std::uint64_t>(done ? Reply::done : Reply::refused);
}

Task<void> RpcLatchServer::serve(RpcLatchServer* server, std::unique_ptr<Connection> connection) {
  Core& core = *connection->core;
  QueuePair& qp = *connection->queue_pair;
  Reactor& reactor = qp.reactor();
  const LocalSpan reply = connection->buffers.local(kReplyAt, kReplyBytes);
  try {
    for (;;) {
      const Received received = co_await qp.receive();
      LatchRequest request;
      std::memcpy(&request, received.message.data, kRequestBytes);
      core.free = std::max(core.free, reactor.now()) + server->node_->cpu_time(CpuWork::rpc, kRequestBytes);
      co_await reactor.sleep(core.free - reactor.now());
      const std::uint64_t result = server->answer(request);
      must_have_room(qp.post_receive(connection->buffers.local(kRequestAt, kRequestBytes)));
      std::memcpy(reply.data, &result, kReplyBytes);
      co_await qp.enqueue(send(reply).with_inline());
    }
  } catch (const FabricError& error) {
    if (!means_gone(error)) {
      throw;
    }
  }
}

RpcLatchClient::RpcLatchClient(RpcLatchServer& server, Node& node, std::uint64_t owner)
    : latches_(server.latches()), owner_(owner) {
  if (owner == 0) {
    throw std::invalid_argument("the owner of an RpcLatchClient is 0: that is the word of a free latch");
  }
  buffers_ = node.allocate(kBufferBytes, Access::local_write);
  queue_pair_ = server.connect(node);
}

Task<bool> RpcLatchClient::latch(std::uint64_t index) { return call({LatchRequest::Operation::latch, index, owner_}); }

Task<bool> RpcLatchClient::unlatch(std::uint64_t index) {
  return call({LatchRequest::Operation::unlatch, index, owner_});
}

Task<bool> RpcLatchClient::call(LatchRequest request) {
  if (request.index >= latches_) {
    throw std::out_of_range(fmt::format("there is no latch {}: the server has {}", request.index, latches_));
  }
  const LocalSpan buffer = buffers_.local(kRequestAt, kRequestBytes);
  std::memcpy(buffer.data, &request, kRequestBytes);
  must_have_room(queue_pair_->post_receive(buffers_.local(kReplyAt, kReplyBytes)));
  co_await queue_pair_->enqueue(send(buffer).with_inline());
  const Received received = co_await queue_pair_->receive();
  std::uint64_t reply = 0;
  std::memcpy(&reply, received.message.data, kReplyBytes);
  if (reply == static_cast<std::uint64_t>(Reply::no_such)) {
    throw std::logic_error(fmt::format("the server refused latch {}: it has fewer than it said", request.index));
  }
  co_return reply == static_cast<std::uint64_t>(Reply::done);
}

}  // namespace sidelatch::bench
