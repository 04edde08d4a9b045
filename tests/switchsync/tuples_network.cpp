#include "tuples_network.h"

#include "softnic/nic/deferred_access.h"

#include <gmock/gmock.h>
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
    : SwitchedNics(std::move(program), hosts_of(options), options.faults, options.seed),
      options_(options),
      ends_(options.clients) {
  set_up(true);
}

void TuplesNetwork::set_up(bool is_new) {
  control_.emplace(device().state());
  for (std::size_t i = 0; i <= options_.clients; ++i) {
    control_->add_station(host(i).nic.options().mac, static_cast<std::uint16_t>(i));
  }
  EXPECT_EQ(control_->add_tuples({.memory_node = address_of_host(options_.clients),
                                  .rkey = memory_node().key,
                                  .address = memory_node().address(0),
                                  .count = options_.tuples,
                                  .tuple_bytes = options_.tuple_bytes,
                                  .slot_bytes = kSlotBytes,
                                  .is_new = is_new}),
            0U);
}

QueuePair& TuplesNetwork::connect(std::size_t i, const Link& link) {
  const Connection made = softnic::nic::connect(host(i), memory_node(), link);
  ends_.at(i) = {&made.a, &made.b,
                 control_->connect({.client = address_of_host(i),
                                    .client_queue_pair = made.a.number(),
                                    .client_psn = link.a_to_b.value(),
                                    .memory_node = address_of_host(options_.clients),
                                    .memory_queue_pair = made.b.number()})};
  return made.a;
}

void TuplesNetwork::kill(std::size_t i) {
  if (ends_.at(i).client != nullptr) {
    host(i).nic.destroy(*std::exchange(ends_.at(i).client, nullptr));
    EXPECT_THAT(host(i).sent(), testing::IsEmpty());
  }
}

void TuplesNetwork::end(std::size_t i) {
  if (ends_.at(i).memory != nullptr) {
    memory_node().nic.destroy(*std::exchange(ends_.at(i).memory, nullptr));
  }
}

void TuplesNetwork::end_all() {
  for (std::size_t i = 0; i < options_.clients; ++i) {
    kill(i);
    end(i);
    ends_.at(i).id.reset();
  }
}

void TuplesNetwork::restart(bool reads_back) {
  end_all();
  device().state() = p4::State(device().state().info());
  set_up(!reads_back);
  if (reads_back) {
    recover_versions();
  }
}

void TuplesNetwork::fail_over(bool drains) {
  replace_switch();
  set_up(false);
  if (!drains) {
    return;
  }
  const Connection own = softnic::nic::connect(memory_node(), memory_node());
  for (const QueuePair* const pair : {&own.a, &own.b}) {
    control_->add_direct(address_of_host(options_.clients), pair->number());
  }
  constexpr std::size_t kElsewhere = 65536;
  const Sge into = memory_node().sge(kElsewhere, 8);
  const SendRequest read{.kind = WorkKind::read,
                         .signaled = true,
                         .sges = {&into, 1},
                         .remote_address = memory_node().address(kElsewhere + 64),
                         .rkey = memory_node().key};
  EXPECT_EQ(own.a.post_send(read), Post::done);
  run([&] { return memory_node().sends.size() != 0; });
  EXPECT_THAT(memory_node().sent(), testing::SizeIs(1));
}

std::vector<std::uint64_t> TuplesNetwork::recover_versions() {
  end_all();
  std::vector<std::uint64_t> headers;
  for (std::uint64_t t = 0; t < options_.tuples; ++t) {
    headers.push_back(memory_node().word(t * kSlotBytes));
  }
  const std::uint64_t version = next_epoch(headers);
  for (std::uint64_t t = 0; t < options_.tuples; ++t) {
    memory_node().word(t * kSlotBytes) = version;
  }
  control_->install_version(0, version);
  return headers;
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
