#include "tuples_network.h"

#include "softnic/nic/deferred_access.h"

#include <gtest/gtest.h>

#include <utility>

namespace sidelatch::switchsync {

using namespace softnic::nic;

namespace {

std::vector<std::unique_ptr<Host>> hosts_of(const TuplesOptions& options) {
  std::vector<std::unique_ptr<Host>> hosts = make_hosts(options.clients);
  std::unique_ptr<MemoryAccess> access = std::make_unique<ImmediateAccess>();
  if (options.defers) {
    access = std::make_unique<DeferredAccess>(DeferredOptions{.seed = options.seed, .spread = 3000, .torn_bias = 0.3});
  }
  hosts.push_back(std::make_unique<Host>(static_cast<std::uint8_t>(options.clients + 1), std::move(access)));
  return hosts;
}

}  // namespace

TuplesNetwork::TuplesNetwork(std::shared_ptr<const p4::Program> program, const TuplesOptions& options)
    : SwitchedNics(std::move(program), hosts_of(options), options.faults, options.seed), options_(options) {
  device()
      .state()
      .table("regions")
      .add({{.value = ip_of_host(options.clients)}, {.value = memory_node().key}}, "tuples",
           {memory_node().address(0), options.tuples * kSlotBytes, options.tuple_bytes, 8, 0});
}

QueuePair& TuplesNetwork::connect(std::size_t i, const Link& link) {
  const Connection made = softnic::nic::connect(host(i), memory_node(), link);
  const std::uint32_t index = connection_of(i);
  p4::State& state = device().state();
  state.reg("Serve.state").write(index, link.a_to_b.value());
  state.reg("answered").write(index, 0);
  state.table("connections")
      .add({{.value = ip_of_host(options_.clients)}, {.value = made.b.number()}}, "to_memory",
           {index, ip_of_host(i), made.a.number(), link.a_to_b.value(), 1024});
  state.table("connections")
      .add({{.value = ip_of_host(i)}, {.value = made.a.number()}}, "to_client",
           {index, ip_of_host(options_.clients)});
  return made.a;
}

std::uint64_t TupleClient::post(SendRequest request, std::uint64_t tuple, std::size_t local, std::uint64_t bytes,
                                std::uint64_t offset) {
  const Sge sge = host().sge(local, bytes);
  request.id = posted;
  request.signaled = true;
  request.sges = {&sge, bytes == 0 ? 0U : 1U};
  request.remote_address = network->memory_node().address(0) + tuple * TuplesNetwork::kSlotBytes + offset;
  request.rkey = network->memory_node().key;
  EXPECT_EQ(pair->post_send(request), Post::done);
  return posted++;
}

std::uint64_t TupleClient::read(std::uint64_t tuple) {
  return post({.kind = WorkKind::read}, tuple, 0, network->options().tuple_bytes);
}

std::uint64_t TupleClient::read_word(std::uint64_t tuple) { return post({.kind = WorkKind::read}, tuple, kWord, 8); }

std::uint64_t TupleClient::swap(std::uint64_t tuple, std::uint64_t compare, std::uint64_t value) {
  return post({.kind = WorkKind::compare_swap, .compare = compare, .swap_or_add = value}, tuple, kWord, 8);
}

std::uint64_t TupleClient::write(std::uint64_t tuple, std::uint64_t content) {
  for (std::uint64_t at = 8; at < network->options().tuple_bytes; at += 8) {
    host().word(kOut + at) = content;
  }
  host().word(kOut) = 0xdead;  // what the client gives for the first word means nothing
  return post({.kind = WorkKind::write}, tuple, kOut, network->options().tuple_bytes);
}

std::vector<CompletionStatus> TupleClient::outcomes() const {
  network->run();
  std::vector<CompletionStatus> all;
  for (const Completion& completion : host().sent()) {
    all.push_back(completion.status);
  }
  return all;
}

}  // namespace sidelatch::switchsync
