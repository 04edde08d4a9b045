// p4/switch_atomics.p4: NICs use words at the switch, also over links that lose, repeat and reorder.
#include "changed_program.h"
#include "switched_nics.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>

#include <p4/switch_atomics.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::switchsync {
namespace {

using namespace softnic::nic;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using ProgramPtr = std::shared_ptr<const p4::Program>;

ProgramPtr interpreted() { return p4::compile_file(in_source_tree("p4/switch_atomics.p4")); }

ProgramPtr with(const std::string& right, const std::string& wrong) {
  return changed_program("switch_atomics.p4", right, wrong);
}

constexpr std::uint32_t kFirstQueuePair = 0x100;

// What clients use of a switch that hosts words.
struct SwitchEnd {
  roce::MacAddress mac{2, 0, 0, 0, 0, 0xfe};
  roce::Ipv4Address ip{10, 0, 0, 254};
  std::uint32_t key = 0x5eed;
  std::uint64_t address = 0x1000'0000;  // of the first word
  std::uint64_t words = 512;
};

class WordsNetwork : public SwitchedNics {
 public:
  WordsNetwork(ProgramPtr program, std::size_t hosts, WireFaults faults = {}, std::uint64_t seed = 1)
      : SwitchedNics(std::move(program), make_hosts(hosts), faults, seed) {
    p4::State& state = device().state();
    for (std::size_t i = 0; i < hosts; ++i) {
      state.table("stations").add({{.value = p4::address_number(host(i).nic.options().mac)}}, "forward", {i});
    }
    state.table("own_addresses")
        .add({{.value = p4::address_number(end_.ip)}}, "is_here", {p4::address_number(end_.mac)});
    state.table("own_arp_addresses")
        .add({{.value = p4::address_number(end_.ip)}}, "is_here", {p4::address_number(end_.mac)});
    state.table("regions").add({{.value = end_.key}}, "region", {end_.address, end_.words * 8, 0, 7});
  }

  [[nodiscard]] const SwitchEnd& end() const { return end_; }
  // A queue pair of host i whose other end is the switch, with this index there.
  QueuePair& connect(std::size_t i, std::uint32_t index, const Link& link = {}) {
    QueuePair& pair = host(i).nic.make_queue_pair(host(i).options());
    bring_up(pair, link, {.mac = end_.mac, .gid = gid_of(end_.ip), .gid_index = 0}, kFirstQueuePair + index,
             link.b_to_a, link.a_to_b);
    device()
        .state()
        .table("queue_pairs")
        .add({{.value = p4::address_number(end_.ip)}, {.value = kFirstQueuePair + index}}, "connection",
             {index, p4::address_number(address_of_host(i)), pair.number()});
    device().state().reg("next_psn").write(index, link.a_to_b.value());
    return pair;
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t i) { return static_cast<std::uint64_t>(words().read(i)); }
  [[nodiscard]] p4::RegisterState& words() { return device().state().reg("Serve.words"); }

 private:
  SwitchEnd end_;
};

// A host's queue pair to the switch, and its buffers: request n uses the n-th word of the host's memory.
struct Client {
  WordsNetwork* network;
  std::size_t number;
  QueuePair* pair;
  std::uint64_t posted = 0;

  [[nodiscard]] Host& host() const { return network->host(number); }
  [[nodiscard]] std::uint64_t& result(std::uint64_t request) const { return host().word(request % 1024 * 8); }

  std::uint64_t post(SendRequest request, std::uint64_t index, std::size_t bytes = 8) {
    const Sge sge = host().sge(posted % 1024 * 8, bytes);
    request.id = posted;
    request.signaled = true;
    request.sges = {&sge, 1};
    request.remote_address = network->end().address + index * 8;
    request.rkey = request.rkey != 0 ? request.rkey : network->end().key;
    EXPECT_EQ(pair->post_send(request), Post::done);
    return posted++;
  }
  std::uint64_t add(std::uint64_t index, std::uint64_t value) {
    return post({.kind = WorkKind::fetch_add, .swap_or_add = value}, index);
  }
  std::uint64_t swap(std::uint64_t index, std::uint64_t compare, std::uint64_t value) {
    return post({.kind = WorkKind::compare_swap, .compare = compare, .swap_or_add = value}, index);
  }
  std::uint64_t read(std::uint64_t index) { return post({.kind = WorkKind::read}, index); }
  std::uint64_t write(std::uint64_t index, std::uint64_t value) {
    result(posted) = value;
    return post({.kind = WorkKind::write}, index);
  }
  // The outcome of what was posted, one after the other.
  std::vector<CompletionStatus> outcomes() const {
    network->run();
    std::vector<CompletionStatus> all;
    for (const Completion& completion : host().sent()) {
      all.push_back(completion.status);
    }
    return all;
  }
};

struct Form {
  const char* name;
  ProgramPtr (*make)();
};

class SwitchAtomics : public testing::TestWithParam<Form> {};

constexpr auto kSuccess = CompletionStatus::success;

TEST_P(SwitchAtomics, EachOperationDoesWhatANicDoes) {
  WordsNetwork network(GetParam().make(), 2);
  Client client{&network, 0, &network.connect(0, 3)};
  network.words().write(5, 40);
  const std::uint64_t add = client.add(5, 2);
  const std::uint64_t swap = client.swap(5, 42, 7);
  const std::uint64_t failing = client.swap(5, 42, 8);
  const std::uint64_t write = client.write(6, 0x0123456789abcdef);
  const std::uint64_t read = client.read(6);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess, kSuccess, kSuccess, kSuccess, kSuccess));
  EXPECT_EQ(client.result(add), 40U);
  EXPECT_EQ(client.result(swap), 42U);
  EXPECT_EQ(client.result(failing), 7U);
  EXPECT_EQ(client.result(write), 0x0123456789abcdefU);
  EXPECT_EQ(client.result(read), network.word(6));
  EXPECT_EQ(network.word(5), 7U);
  // In memory, a word's first byte is the lowest, as it is for NICs on x86; atomics' operands are numbers.
  const std::uint64_t overflow = client.add(5, ~std::uint64_t{0});
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.result(overflow), 7U);
  EXPECT_EQ(network.word(5), 6U);
}

TEST_P(SwitchAtomics, AnAtomicAndAReadSeeTheSameNumber) {
  WordsNetwork network(GetParam().make(), 1);
  Client client{&network, 0, &network.connect(0, 0)};
  client.add(0, 0x1122334455667788);
  const std::uint64_t read = client.read(0);
  const std::uint64_t write = client.write(1, 0x1122334455667788);
  const std::uint64_t add = client.add(1, 0);
  EXPECT_THAT(client.outcomes(), SizeIs(4));
  EXPECT_EQ(client.result(read), 0x1122334455667788U);
  EXPECT_EQ(client.result(write), client.result(add));
}

// ---- Many clients, and a network that loses, repeats and reorders.

struct Sums {
  std::uint64_t wanted = 0;
  std::uint64_t counted = 0;
  std::uint64_t wrong = 0;  // answers that are not possible
  std::uint64_t lost = 0;   // packets
  bool failed = false;
};

// Each client adds to word 0, and does anything to words of its own, up to 16 at a time.
Sums run_clients(const ProgramPtr& program, WireFaults faults, std::uint64_t seed) {
  constexpr std::size_t kClients = 3;
  constexpr std::uint64_t kRequests = 300;
  WordsNetwork network(program, kClients, faults, seed);
  std::mt19937_64 random(seed);
  Sums sums;
  // A READ may be repeated, and then sees what its client has changed after it.
  struct Expected {
    std::uint64_t id;
    std::vector<std::uint64_t> possible;  // empty: any
    std::uint64_t reads = 0;              // the word, if it is a READ
  };
  std::vector<Client> clients;
  std::vector<std::deque<Expected>> expected(kClients);
  std::vector<std::array<std::uint64_t, 4>> own(kClients);
  Link link;
  link.rd_atomic = 16;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back({&network, i, &network.connect(i, static_cast<std::uint32_t>(i * 7), link)});
  }
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t i = 0; i < kClients; ++i) {
      Client& client = clients[i];
      while (client.posted < kRequests && expected[i].size() < 16) {
        const std::uint64_t which = random() % 4;
        std::uint64_t& word = own[i][which];
        const std::uint64_t index = 8 + i * 4 + which;
        const std::uint64_t value = random() % 3;
        const std::uint64_t before = word;
        switch (random() % 5) {
          case 0:
            expected[i].push_back({client.add(0, 1), {}});
            ++sums.wanted;
            break;
          case 1:
            expected[i].push_back({client.add(index, value), {before}});
            word += value;
            break;
          case 2:
            expected[i].push_back({client.swap(index, value, value + 1), {before}});
            word = word == value ? value + 1 : word;
            break;
          case 3:
            expected[i].push_back({client.write(index, value), {value}});
            word = value;
            break;
          default:
            expected[i].push_back({client.read(index), {before}, index});
        }
        for (Expected& earlier : expected[i]) {
          if (earlier.reads == index) {
            earlier.possible.push_back(word);
          }
        }
      }
      goes_on = goes_on || !expected[i].empty();
    }
    network.run(
        [&] { return std::ranges::any_of(clients, [](const Client& c) { return c.host().sends.size() != 0; }); });
    for (std::size_t i = 0; i < kClients; ++i) {
      for (const Completion& completion : clients[i].host().sent()) {
        if (completion.status != kSuccess) {
          sums.failed = true;
          return sums;
        }
        const Expected& next = expected[i].front();
        const bool is_possible =
            next.possible.empty() || std::ranges::count(next.possible, clients[i].result(next.id)) > 0;
        sums.wrong += completion.id == next.id && is_possible ? 0U : 1U;
        expected[i].pop_front();
      }
    }
  }
  sums.counted = network.word(0);
  sums.lost = network.lost();
  return sums;
}

TEST_P(SwitchAtomics, EachRequestHappensOnceWhateverTheNetworkDoes) {
  std::uint64_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Sums sums = run_clients(GetParam().make(), {.drop = 0.03, .duplicate = 0.05, .reorder = 0.1}, seed);
    EXPECT_FALSE(sums.failed) << "seed " << seed;
    EXPECT_EQ(sums.counted, sums.wanted) << "seed " << seed;
    EXPECT_EQ(sums.wrong, 0U) << "seed " << seed;
    lost += sums.lost;
  }
  EXPECT_GT(lost, 0U);
}

bool is_caught(const ProgramPtr& program) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Sums sums = run_clients(program, {.drop = 0.03, .duplicate = 0.05, .reorder = 0.1}, seed);
    if (sums.failed || sums.wrong != 0 || sums.counted != sums.wanted) {
      return true;
    }
  }
  return false;
}

TEST(BrokenSwitchAtomics, ASwitchThatExecutesARepeatedAtomicAgainIsCaught) {
  EXPECT_TRUE(is_caught(
      with("bool executes = is_new && fault == ACK;", "bool executes = (is_new || is_repeated) && fault == ACK;")));
}
TEST(BrokenSwitchAtomics, ASwitchThatKeepsOneResultPerQueuePairIsCaught) {
  EXPECT_TRUE(is_caught(with("pair << 4 | (bit<32>)h.bth.psn[3:0]", "pair << 4")));
}
TEST(BrokenSwitchAtomics, ASwitchThatDoesNotLookAtWhoseResultItKeepsIsCaught) {
  EXPECT_TRUE(is_caught(with("pair << 4 | (bit<32>)h.bth.psn[3:0]", "(bit<32>)h.bth.psn[3:0]")));
}
TEST(BrokenSwitchAtomics, ASwitchThatTakesLaterRequestsFirstIsCaught) {
  EXPECT_TRUE(is_caught(with("bool is_new = ahead == 0;", "bool is_new = ahead < 0x800000;")));
}

// ---- Refusals.

TEST_P(SwitchAtomics, WhatIsNotAllowedIsRefusedAndChangesNothing) {
  struct Case {
    const char* what;
    SendRequest request;
    std::uint64_t index;
    std::uint64_t offset;
    std::size_t bytes;
    CompletionStatus status;
  };
  const std::vector<Case> cases = {
      {"wrong key",
       {.kind = WorkKind::fetch_add, .rkey = 1, .swap_or_add = 1},
       0,
       0,
       8,
       CompletionStatus::remote_access},
      {"behind the end", {.kind = WorkKind::fetch_add, .swap_or_add = 1}, 512, 0, 8, CompletionStatus::remote_access},
      {"half behind the end", {.kind = WorkKind::read}, 511, 4, 8, CompletionStatus::remote_access},
      {"before the beginning", {.kind = WorkKind::write}, ~std::uint64_t{0}, 0, 8, CompletionStatus::remote_access},
      {"misaligned", {.kind = WorkKind::compare_swap}, 1, 4, 8, CompletionStatus::remote_invalid_request},
      {"READ of 16 bytes", {.kind = WorkKind::read}, 1, 0, 16, CompletionStatus::remote_invalid_request},
  };
  for (const Case& one : cases) {
    WordsNetwork network(GetParam().make(), 1);
    Client client{&network, 0, &network.connect(0, 0)};
    network.words().write(0, 9);
    const p4::RegisterState before = network.words();
    const Sge sge = client.host().sge(0, one.bytes);
    SendRequest request = one.request;
    request.signaled = true;
    request.sges = {&sge, 1};
    request.remote_address = network.end().address + one.index * 8 + one.offset;
    request.rkey = request.rkey != 0 ? request.rkey : network.end().key;
    ASSERT_EQ(client.pair->post_send(request), Post::done);
    EXPECT_THAT(client.outcomes(), ElementsAre(one.status)) << one.what;
    EXPECT_EQ(network.words(), before) << one.what;
    // The switch takes nothing more from this queue pair.
    EXPECT_NE(network.device().state().reg("next_psn").read(0) & 0x80000000U, 0U) << one.what;
  }
}

TEST_P(SwitchAtomics, RightsAreKept) {
  for (const unsigned rights : {0U, 1U, 2U, 4U}) {
    for (const auto& [kind, needed] :
         {std::pair{WorkKind::read, 1U}, std::pair{WorkKind::write, 2U}, std::pair{WorkKind::fetch_add, 4U}}) {
      WordsNetwork network(GetParam().make(), 1);
      network.device().state().table("regions").add({{.value = 77}}, "region", {network.end().address, 64, 8, rights});
      Client client{&network, 0, &network.connect(0, 0)};
      client.post({.kind = kind, .rkey = 77, .swap_or_add = 1}, 0);
      EXPECT_THAT(client.outcomes(), ElementsAre(rights == needed ? kSuccess : CompletionStatus::remote_access));
    }
  }
}

TEST_P(SwitchAtomics, APayloadThatTheSwitchDoesNotKnowIsNotAcknowledged) {
  for (const SendRequest& request : {SendRequest{.kind = WorkKind::send}, SendRequest{.kind = WorkKind::write}}) {
    WordsNetwork network(GetParam().make(), 1);
    Client client{&network, 0, &network.connect(0, 0)};
    const p4::RegisterState before = network.words();
    client.post(request, 0, 16);
    EXPECT_THAT(client.outcomes(), ElementsAre(CompletionStatus::retry_exceeded));
    EXPECT_EQ(network.words(), before);
  }
}

TEST_P(SwitchAtomics, AWriteOfNothingIsAcknowledgedAndNeedsNoKey) {
  WordsNetwork network(GetParam().make(), 1);
  Client client{&network, 0, &network.connect(0, 0)};
  const SendRequest nothing{.kind = WorkKind::write, .signaled = true, .remote_address = 0, .rkey = 1};
  ASSERT_EQ(client.pair->post_send(nothing), Post::done);
  client.add(0, 1);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess, kSuccess));
  EXPECT_EQ(network.word(0), 1U);
}

// The address of a queue pair is no secret; its peer's IP address is compared, as NICs do.
TEST_P(SwitchAtomics, AStationThatIsNotThePeerIsNotHeard) {
  WordsNetwork network(GetParam().make(), 2);
  network.connect(0, 0);
  Host& stranger = network.host(1);
  QueuePair& pair = stranger.nic.make_queue_pair(stranger.options());
  const Link link;
  bring_up(pair, link, {.mac = network.end().mac, .gid = gid_of(network.end().ip), .gid_index = 0}, 0x100, link.b_to_a,
           link.a_to_b);
  Client client{&network, 1, &pair};
  client.add(0, 1);
  EXPECT_THAT(client.outcomes(), ElementsAre(CompletionStatus::retry_exceeded));
  EXPECT_EQ(network.word(0), 0U);
}

TEST_P(SwitchAtomics, OtherPacketsPassBetweenTheHosts) {
  WordsNetwork network(GetParam().make(), 2, {.drop = 0.01, .duplicate = 0.02, .reorder = 0.02});
  const Connection connection = softnic::nic::connect(network.host(0), network.host(1));
  Host& a = network.host(0);
  Host& b = network.host(1);
  a.fill(0, 20'000, 5);
  const Sge from = a.sge(0, 20'000);
  const SendRequest write{
      .kind = WorkKind::write, .signaled = true, .sges = {&from, 1}, .remote_address = b.address(64), .rkey = b.key};
  ASSERT_EQ(connection.a.post_send(write), Post::done);
  const Sge into = a.sge(30'000, 8);
  const SendRequest add{.kind = WorkKind::fetch_add,
                        .signaled = true,
                        .sges = {&into, 1},
                        .remote_address = b.address(65'536),
                        .rkey = b.key,
                        .swap_or_add = 3};
  ASSERT_EQ(connection.a.post_send(add), Post::done);
  network.run();
  EXPECT_THAT(a.sent(), SizeIs(2));
  EXPECT_TRUE(std::ranges::equal(a.bytes(0, 20'000), b.bytes(64, 20'000)));
  EXPECT_EQ(b.word(65'536), 3U);
}

TEST_P(SwitchAtomics, ItSaysWhereItIs) {
  WordsNetwork network(GetParam().make(), 1);
  std::vector<std::byte> frame;
  const auto append = [&](std::initializer_list<unsigned> bytes) {
    for (const unsigned byte : bytes) {
      frame.push_back(static_cast<std::byte>(byte));
    }
  };
  append({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6});  // to all
  append({0, 1, 8, 0, 6, 4, 0, 1});                                      // who has
  append({2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 254});
  const auto answers = network.exchange(0, frame);
  frame.clear();
  append({2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xfe, 8, 6});
  append({0, 1, 8, 0, 6, 4, 0, 2});
  append({2, 0, 0, 0, 0, 0xfe, 10, 0, 0, 254, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1});
  EXPECT_THAT(answers, ElementsAre(frame));
}

INSTANTIATE_TEST_SUITE_P(Forms, SwitchAtomics,
                         testing::Values(Form{"interpreted", &interpreted},
                                         Form{"compiled", &p4::programs::switch_atomics}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace sidelatch::switchsync
