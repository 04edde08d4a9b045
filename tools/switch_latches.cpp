#include "switch_latches.h"

#include "commands.h"

#include <sidelatch/fabric/task.h>
#include <sidelatch/switchsync/optimistic_switch.h>
#include <sidelatch/switchsync/tuple_moves.h>
#include <sidelatch/switchsync/word_switch.h>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <coroutine>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

namespace sidelatch::tools {

using fabric::verbs::HeldTuple;
using fabric::verbs::SwitchedEnds;
using fabric::verbs::SwitchedTuples;

namespace {

constexpr std::uint32_t kWordsKey = 0x5eed;
constexpr std::uint64_t kWordsAt = 0x1000'0000;
constexpr std::uint64_t kWordBytes = 8;

std::optional<std::array<std::uint8_t, 4>> parse_ipv4(const std::string& text) {
  std::array<std::uint8_t, 4> ip{};
  return ::inet_pton(AF_INET, text.c_str(), ip.data()) == 1 ? std::optional(ip) : std::nullopt;
}

// As software NICs choose theirs.
std::array<std::uint8_t, 6> mac_of(const std::array<std::uint8_t, 4>& ip) {
  return {0x02, 0x53, ip[0], ip[1], ip[2], ip[3]};
}

std::optional<std::array<std::uint8_t, 6>> parse_mac(const std::string& text) {
  std::array<std::uint8_t, 6> mac{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < mac.size(); ++i) {
    const auto [next, error] = std::from_chars(at, end, mac[i], 16);
    const bool is_last = i + 1 == mac.size();
    if (error != std::errc{} || next == at || next - at > 2 || (is_last ? next != end : next == end || *next != ':')) {
      return std::nullopt;
    }
    at = next + 1;
  }
  return mac;
}

struct Station {
  std::array<std::uint8_t, 6> mac{};
  std::optional<std::array<std::uint8_t, 4>> ip{};  // of a software NIC
  std::uint16_t port = 0;
};

// "2=10.0.0.7", a software NIC, or "2=02:00:00:00:00:01".
Station parse_station(const std::string& text, const p4::WiredSwitch& device) {
  const std::size_t equals = text.find('=');
  Station station;
  const char* const end = text.data() + std::min(equals, text.size());
  const auto [next, error] = std::from_chars(text.data(), end, station.port);
  const std::string address = equals == std::string::npos ? "" : text.substr(equals + 1);
  std::optional<std::array<std::uint8_t, 6>> mac = parse_mac(address);
  if (const auto ip = parse_ipv4(address)) {
    mac = mac_of(*ip);
    station.ip = ip;
  }
  if (error != std::errc{} || next != end || !mac) {
    throw std::invalid_argument(fmt::format(
        "--station {}: it is PORT=IP of a software NIC, or PORT=MAC, as in 2=10.0.0.7 or 2=02:53:0a:00:00:07", text));
  }
  station.mac = *mac;
  if (std::ranges::find(device.ports(), station.port, &p4::PortOptions::number) == device.ports().end()) {
    throw std::invalid_argument(fmt::format("--station {}: the switch has no port {}", text, station.port));
  }
  return station;
}

// The result of a task that waits for nothing.
bool run_at_once(fabric::Task<bool> task) {
  struct Run {
    struct promise_type {
      static Run get_return_object() noexcept { return {}; }
      static std::suspend_never initial_suspend() noexcept { return {}; }
      static std::suspend_never final_suspend() noexcept { return {}; }
      static void return_void() noexcept {}
      static void unhandled_exception() noexcept { std::terminate(); }
    };
  };
  std::optional<bool> result;
  std::exception_ptr error;
  // NOLINTNEXTLINE(readability-static-accessed-through-instance): the compiler calls the promise so
  const auto run = [](fabric::Task<bool> all, std::optional<bool>* to, std::exception_ptr* failure) -> Run {
    try {
      *to = co_await std::move(all);
    } catch (...) {
      *failure = std::current_exception();
    }
  };
  run(std::move(task), &result, &error);
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
  return result.value();
}

}  // namespace

// Calls of the clients' threads, carried out by the switch's thread, which owns the state. When that has ended, the
// caller's thread does it.
class LatchService::Plane : public fabric::verbs::SwitchControl {
 public:
  explicit Plane(p4::WiredSwitch& device) : device_(&device) {}

  void add(const Station& station) {
    add_station(station);
    if (station.ip) {
      station_addresses_.insert(*station.ip);
    } else {
      knows_all_addresses_ = false;
    }
  }

  void work() {
    const std::scoped_lock lock(mutex_);
    for (const std::function<void()>& job : jobs_) {
      job();
    }
    jobs_.clear();
    done_.notify_all();
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    for (const std::function<void()>& job : jobs_) {
      job();
    }
    jobs_.clear();
    has_ended_ = true;
    done_.notify_all();
  }

 protected:
  virtual void add_station(const Station& station) = 0;

  // The switch would lose whatever is sent to another address, and the client would only see that nobody answers.
  void require_station(const std::array<std::uint8_t, 4>& ip) const {
    if (knows_all_addresses_ && !station_addresses_.empty() && !station_addresses_.contains(ip)) {
      throw std::invalid_argument(fmt::format(
          "the switch does not know at which port {0}.{1}.{2}.{3} is: start it with --station PORT={0}.{1}.{2}.{3}",
          ip[0], ip[1], ip[2], ip[3]));
    }
  }

  template <class Job>
  auto in_thread(Job job) {
    using Result = decltype(job());
    std::optional<std::conditional_t<std::is_void_v<Result>, bool, Result>> result;
    std::exception_ptr error;
    const auto run = [&] {
      try {
        if constexpr (std::is_void_v<Result>) {
          job();
          result = true;
        } else {
          result = job();
        }
      } catch (...) {
        error = std::current_exception();
        result.emplace();
      }
    };
    std::unique_lock lock(mutex_);
    if (has_ended_) {
      run();
    } else {
      jobs_.emplace_back(run);
      device_->interrupt();
      done_.wait(lock, [&] { return result.has_value(); });
    }
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
    if constexpr (!std::is_void_v<Result>) {
      return *std::move(result);
    }
  }

 private:
  p4::WiredSwitch* device_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::deque<std::function<void()>> jobs_;
  bool has_ended_ = false;
  std::set<std::array<std::uint8_t, 4>> station_addresses_;
  bool knows_all_addresses_ = true;  // none was given by its MAC alone
};

class LatchService::Tuples final : public Plane, public fabric::verbs::SwitchCache {
 public:
  Tuples(p4::WiredSwitch& device, std::size_t hot) : Plane(device), control_(device.device().state()) {
    if (hot != 0 && !control_.is_cache()) {
      throw std::invalid_argument(
          fmt::format("--hot {}: this program keeps the versions of all tuples; it is for p4/switch_cached.p4", hot));
    }
    if (hot != 0) {
      try {
        control_.limit_hot(hot);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(fmt::format("--hot: {}", error.what()));
      }
    }
  }

  /// Before the switch begins.
  void close_memory_node(const std::array<std::uint8_t, 4>& memory_node) { control_.close_memory_node(memory_node); }

  ConnectionId connect(const SwitchedEnds& ends) override {
    require_station(ends.client);
    require_station(ends.memory_node);
    return in_thread([&] {
      control_.close_memory_node(ends.memory_node);
      for (const auto& [first, bytes] : tuple_bytes_) {
        if (ends.path_mtu < bytes) {
          throw std::invalid_argument(
              fmt::format("a path MTU of {} bytes, and tuples of {}: the switch judges a READ by its one packet; use a "
                          "larger MTU, or shorter tuples",
                          ends.path_mtu, bytes));
        }
      }
      return control_.connect({.client = ends.client,
                               .client_queue_pair = ends.client_queue_pair,
                               .client_psn = ends.client_psn,
                               .memory_node = ends.memory_node,
                               .memory_queue_pair = ends.memory_queue_pair,
                               .path_mtu = ends.path_mtu});
    });
  }
  void fence(ConnectionId connection) override {
    in_thread([&] { control_.fence(connection); });
  }
  std::vector<HeldTuple> held(ConnectionId connection) override {
    return in_thread([&] {
      std::vector<HeldTuple> all;
      for (const switchsync::Held& one : control_.held(connection)) {
        all.push_back({.tuple = one.tuple, .version = control_.version(one.tuple), .in_doubt = one.in_doubt});
      }
      return all;
    });
  }
  void release(ConnectionId connection) override {
    in_thread([&] {
      const switchsync::Released released = control_.release(connection);
      if (!released.in_doubt.empty()) {
        say("sidelatch: a client has ended while its WRITE was on its way: tuple {} is in doubt\n",
            fmt::join(released.in_doubt, ", "));
      }
    });
  }
  void check_tuples(const SwitchedTuples& tuples) override {
    in_thread([&] {
      const std::uint32_t first = add_row(tuples, false);
      control_.remove_tuples(first);
      tuple_bytes_.erase(first);
    });
  }
  std::uint64_t version(std::uint32_t tuple) override {
    return in_thread([&] { return control_.version(tuple); });
  }
  std::uint32_t add_tuples(const SwitchedTuples& tuples) override {
    return in_thread([&] { return add_row(tuples, true); });
  }
  fabric::verbs::RecoveredTuples recover_tuples(const SwitchedTuples& tuples, std::uint64_t latest) override {
    return in_thread([&] {
      const std::uint64_t version = switchsync::next_epoch({&latest, 1});
      const std::uint32_t first = add_row(tuples, false);
      control_.install_latched(first, version);
      return fabric::verbs::RecoveredTuples{.first = first, .version = version};
    });
  }
  void unlatch(std::uint32_t tuple) override {
    in_thread([&] { control_.unlatch(tuple); });
  }
  void remove_tuples(std::uint32_t first) override {
    in_thread([&] {
      control_.remove_tuples(first);
      tuple_bytes_.erase(first);
    });
  }
  bool in_doubt(std::uint32_t tuple) override {
    return in_thread([&] { return is_in_doubt(tuple); });
  }
  bool inherit(ConnectionId to, std::uint32_t tuple) override {
    return in_thread([&] {
      if (!is_in_doubt(tuple)) {
        return false;
      }
      control_.give_latch(tuple, to);
      return true;
    });
  }

  SwitchCache* cache() override { return control_.is_cache() ? this : nullptr; }
  std::vector<std::uint32_t> take_asked() override {
    return in_thread([&] { return control_.take_asked(); });
  }
  bool heat(std::uint32_t tuple, Words& words) override {
    words_.server = &words;
    return run_at_once(moves_.heat(tuple));
  }
  bool cool(std::uint32_t tuple, Words& words) override {
    words_.server = &words;
    return run_at_once(moves_.cool(tuple));
  }

 private:
  void add_station(const Station& station) override { control_.add_station(station.mac, station.port); }
  [[nodiscard]] bool is_in_doubt(std::uint32_t tuple) const {
    const bool is_cold = control_.is_cache() && (!control_.is_hot(tuple) || control_.is_moving(tuple));
    return !is_cold && control_.version(tuple) % 2 != 0 && !control_.holder(tuple);
  }

  // For moves, in the thread of the switch.
  class Cache final : public switchsync::TupleCache {
    using Control = switchsync::OptimisticSwitch;
    template <class Job>
    auto call(Job job) {
      return tuples_->in_thread([&] { return job(tuples_->control_); });
    }

   public:
    explicit Cache(Tuples& tuples) : tuples_(&tuples) {}
    bool is_hot(std::uint32_t tuple) override {
      return call([&](Control& control) { return control.is_hot(tuple); });
    }
    bool is_moving(std::uint32_t tuple) override {
      return call([&](Control& control) { return control.is_moving(tuple); });
    }
    std::size_t room() override {
      return call([](Control& control) { return control.room(); });
    }
    std::optional<std::uint32_t> next_hot(std::uint32_t from) override {
      return call([&](Control& control) { return control.next_hot(from); });
    }
    bool begin_to_heat(std::uint32_t tuple) override {
      return call([&](Control& control) { return control.begin_to_heat(tuple); });
    }
    void end_to_heat(std::uint32_t tuple, std::uint64_t version) override {
      call([&](Control& control) { control.end_to_heat(tuple, version); });
    }
    std::optional<std::uint64_t> begin_to_cool(std::uint32_t tuple) override {
      return call([&](Control& control) { return control.begin_to_cool(tuple); });
    }
    void end_to_cool(std::uint32_t tuple) override {
      call([&](Control& control) { control.end_to_cool(tuple); });
    }
    void give_up(std::uint32_t tuple) override {
      try {
        call([&](Control& control) {
          if (control.is_moving(tuple)) {  // it may have ended with its memory
            control.give_up_move(tuple);
          }
        });
      } catch (const std::exception& error) {
        say("sidelatch: a move of tuple {} cannot be given up: {}\n", tuple, error.what());
      }
    }

   private:
    Tuples* tuples_;
  };
  // Tasks that do not wait: the exchange asks the memory server, and this thread waits for the answer.
  struct WordsAtServer final : switchsync::TupleWords {
    fabric::Task<std::uint64_t> read(std::uint32_t tuple) override { co_return server->read(tuple); }
    fabric::Task<void> write(std::uint32_t tuple, std::uint64_t version) override {
      server->write(tuple, version);
      co_return;
    }
    Words* server = nullptr;
  };

  std::uint32_t add_row(const SwitchedTuples& tuples, bool is_new) {
    const std::uint32_t first = control_.add_tuples({.memory_node = tuples.memory_node,
                                                     .rkey = tuples.memory.rkey.value,
                                                     .address = tuples.memory.address.value,
                                                     .count = tuples.count,
                                                     .tuple_bytes = tuples.tuple_bytes,
                                                     .slot_bytes = tuples.slot_bytes,
                                                     .path_mtu = 4096,  // connect() knows that of the connection
                                                     .is_new = is_new});
    tuple_bytes_[first] = tuples.tuple_bytes;
    return first;
  }

  switchsync::OptimisticSwitch control_;
  std::map<std::uint32_t, std::uint64_t> tuple_bytes_;  // bytes of a tuple, by the first one
  Cache cache_{*this};
  WordsAtServer words_;
  switchsync::TupleMoves moves_{cache_, words_, 0, ~std::uint32_t{0}};  // of all rows
};

class LatchService::Words final : public Plane {
 public:
  Words(p4::WiredSwitch& device, const std::array<std::uint8_t, 4>& ip)
      : Plane(device), control_(device.device().state()), count_(device.device().state().reg("Serve.words").size()) {
    control_.serve(ip, mac_of(ip));
    control_.add_words({.rkey = kWordsKey, .address = kWordsAt, .first = 0, .count = count_});
  }

  [[nodiscard]] fabric::RemoteSpan words() const { return {{kWordsAt}, count_ * kWordBytes, {kWordsKey}}; }
  ConnectionId connect(const SwitchedEnds& ends) override {
    require_station(ends.client);
    return in_thread([&] {
      return ConnectionId{control_.connect({.ip = ends.memory_node,
                                            .queue_pair = ends.memory_queue_pair,
                                            .client = ends.client,
                                            .client_queue_pair = ends.client_queue_pair,
                                            .client_psn = ends.client_psn})};
    });
  }
  void fence(ConnectionId /*connection*/) override {}
  std::vector<HeldTuple> held(ConnectionId /*connection*/) override { return {}; }
  void release(ConnectionId connection) override {
    in_thread([&] { control_.disconnect(static_cast<switchsync::WordSwitch::ConnectionId>(connection)); });
  }
  std::uint32_t add_tuples(const SwitchedTuples& /*tuples*/) override { throw std::logic_error("no tuples here"); }
  void remove_tuples(std::uint32_t /*first*/) override {}
  bool inherit(ConnectionId /*to*/, std::uint32_t /*tuple*/) override { return false; }

 private:
  void add_station(const Station& station) override { control_.add_station(station.mac, station.port); }

  switchsync::WordSwitch control_;
  std::uint64_t count_;
};

// For tests: SIDELATCH_SWITCH_DIES_AT=STEP kills this process at that step of a recovery, as kill -9 would.
std::function<void(std::string_view)> death_at_step() {
  const char* const given = std::getenv("SIDELATCH_SWITCH_DIES_AT");  // NOLINT(concurrency-mt-unsafe)
  if (given == nullptr) {
    return {};
  }
  const std::string wanted = given;
  if (std::ranges::find(fabric::verbs::kRecoverySteps, wanted) == fabric::verbs::kRecoverySteps.end()) {
    throw std::invalid_argument(fmt::format("SIDELATCH_SWITCH_DIES_AT={}: the steps are {}", wanted,
                                            fmt::join(fabric::verbs::kRecoverySteps, ", ")));
  }
  return [wanted](std::string_view step) {
    if (step == wanted) {
      static_cast<void>(::kill(::getpid(), SIGKILL));
    }
  };
}

void add_latch_options(Command command, LatchArguments& arguments, Option control) {
  Option latches = command
                       .option_calling(
                           "--latches", [&arguments](const std::string& address) { arguments.listen = address; },
                           "HOST[:PORT] (default 127.0.0.1:18516) where clients set up latches at this "
                           "switch: --connect there; with --memory or --words")
                       .optional_value("127.0.0.1", "[HOST[:PORT]]")
                       .excludes(control);
  command
      .option("--memory", arguments.memory,
              "p4/switch_optimistic.p4, p4/switch_tuples.p4 or p4/switch_cached.p4: HOST[:PORT] of `check --server`, "
              "whose memory node is behind this switch")
      .needs(latches);
  command
      .option(
          "--words", arguments.words,
          "p4/switch_atomics.p4 or p4/switch_latches.p4: an unused IPv4 address for the switch, which has the words")
      .needs(latches);
  command
      .option("--grace", arguments.grace_seconds,
              "--latches: seconds that clients which another switch has cut off are waited for, while tuples that "
              "were recovered stay latched (default 10)")
      .needs(latches);
  command
      .option("--hot", arguments.hot,
              "--memory with p4/switch_cached.p4: most tuples whose versions are at the switch at a time (default: as "
              "many as the program has room for)")
      .needs(latches);
  command.option("--token", arguments.token, "--latches: a word that clients must give, and the memory server wants")
      .needs(latches);
  command
      .option("--station", arguments.stations,
              "--latches: what is at a port: PORT=IP of a software NIC, or PORT=MAC (repeat it)")
      .one_at_a_time()
      .needs(latches);
}

LatchService::LatchService(const LatchArguments& arguments, p4::WiredSwitch& device) {
  constexpr double kMostSeconds = 86'400;
  if (!(arguments.grace_seconds >= 0 && arguments.grace_seconds <= kMostSeconds)) {
    throw std::invalid_argument(
        fmt::format("--grace {}: it must be 0 to {} seconds", arguments.grace_seconds, kMostSeconds));
  }
  if (arguments.memory.empty() == arguments.words.empty()) {
    throw std::invalid_argument(
        "--latches: give --memory with p4/switch_optimistic.p4, or --words with "
        "p4/switch_atomics.p4");
  }
  if (arguments.hot != 0 && !arguments.words.empty()) {
    throw std::invalid_argument(fmt::format("--hot {}: it is for --memory with p4/switch_cached.p4", arguments.hot));
  }
  fabric::verbs::SwitchExchangeOptions options{
      .address = arguments.listen,
      .token = arguments.token,
      .memory = arguments.memory,
      .grace = std::chrono::milliseconds(std::llround(arguments.grace_seconds * 1000)),
      .at_recovery_step = death_at_step()};
  const char* const needed = arguments.words.empty() ? "--memory" : "--words";
  try {
    if (arguments.words.empty()) {
      auto tuples = std::make_unique<Tuples>(device, arguments.hot);
      if (const auto memory_node = fabric::verbs::memory_node_behind(options)) {
        tuples->close_memory_node(*memory_node);  // clients of a switch before this one may still be there
      } else {
        say("sidelatch: no memory server answers at {}; if it had clients behind another switch, and only stands "
            "still, end it before they come here\n",
            arguments.memory);
      }
      plane_ = std::move(tuples);
    } else {
      const auto ip = parse_ipv4(arguments.words);
      if (!ip) {
        throw std::invalid_argument(fmt::format("--words {}: it is an IPv4 address, as in 10.0.0.9", arguments.words));
      }
      auto words = std::make_unique<Words>(device, *ip);
      options.ip = *ip;
      options.words = words->words();
      plane_ = std::move(words);
    }
  } catch (const p4::ControlError& error) {
    throw std::invalid_argument(fmt::format("{}: the program is not the one for it: {}", needed, error.what()));
  }
  // Hosts find each other by ARP, whose questions go to all.
  constexpr std::uint16_t kAll = 1;
  constexpr std::uint64_t kBroadcast = 0xffff'ffff'ffff;
  std::vector<p4::MulticastMember> all;
  for (const p4::PortOptions& port : device.ports()) {
    all.push_back({.port = port.number});
  }
  device.device().set_multicast_group(kAll, std::move(all));
  device.device().state().table("Serve.stations").add({{.value = kBroadcast}}, "flood", {kAll});
  for (const std::string& station : arguments.stations) {
    try {
      const Station parsed = parse_station(station, device);
      if (!arguments.words.empty() && parsed.ip == parse_ipv4(arguments.words)) {
        throw std::invalid_argument(fmt::format("--words {}: --station {} has this address; give one that nothing has",
                                                arguments.words, station));
      }
      plane_->add(parsed);
    } catch (const p4::ControlError& error) {
      throw std::invalid_argument(fmt::format("--station {}: {}", station, error.what()));
    }
  }
  if (arguments.words.empty() && arguments.stations.empty()) {
    throw std::invalid_argument(
        "--memory: the switch knows nothing at its ports, so nothing would reach anybody; give --station PORT=IP for "
        "the memory node and for each client");
  }
  if (!arguments.words.empty()) {
    say("sidelatch: all latches are free; if another switch has had them, end its clients' queue pairs at the memory "
        "node first\n");
  }
  exchange_ = std::make_unique<fabric::verbs::SwitchExchange>(*plane_, options);
}

LatchService::~LatchService() {
  if (plane_ != nullptr) {
    plane_->end();
  }
}

void LatchService::work() { plane_->work(); }
std::string LatchService::address() const { return exchange_->address(); }
std::string LatchService::problem() const { return exchange_->problem(); }

}  // namespace sidelatch::tools
