// Properties of librdmacm's identifiers and of the connection manager that hold whatever two programs call, and
// whatever becomes of their messages: lost, repeated, damaged, late, or forged by a stranger. No message is refused
// with an exception, what is sent can be read, an event names an identifier of its channel, time always moves on, and
// when all identifiers are destroyed everything ends: no port is kept and nothing is due. Run by libFuzzer
// (`scripts/fuzz rdma-cm`), and briefly by rdma_cm_test.cpp.
#include "tests/fuzz/rdma_cm_fuzz.h"

#include "softnic/cm/rdma_ids.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace sidelatch::softnic::cm {
namespace {

using namespace std::chrono_literals;

void require_cm(bool holds, const char* property) {
  if (!holds) {
    std::fprintf(stderr, "a property of the connection manager does not hold: %s\n", property);
    std::abort();
  }
}

class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : rest_(bytes) {}
  [[nodiscard]] bool is_empty() const { return rest_.empty(); }
  // 0 behind the end.
  std::uint8_t take() {
    if (rest_.empty()) {
      return 0;
    }
    const auto value = std::to_integer<std::uint8_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    return value;
  }
  std::uint8_t below(unsigned bound) { return static_cast<std::uint8_t>(take() % bound); }
  std::span<const std::byte> take_bytes(std::size_t most) {
    const auto taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

const std::array<Gid, 3> kGids = {roce::gid_of({10, 0, 0, 1}), roce::gid_of({10, 0, 0, 2}),
                                  roce::gid_of({10, 0, 0, 9})};
constexpr std::array<PortSpace, 4> kSpaces = {kTcp, kUdp, kInfiniband, kIpoib};

class Station final : public Surroundings {
 public:
  using Ports = std::map<std::pair<PortSpace, std::uint16_t>, std::pair<Gid, std::uint64_t>>;
  Station(Ports& ports, const Gid& gid) : ports_(ports), gids_{gid} {}

  [[nodiscard]] const std::vector<Gid>& gids() const override { return gids_; }
  [[nodiscard]] bool is_of_machine(const SocketAddress& address) const override { return address.is_loopback(); }
  [[nodiscard]] bool reaches(const Gid& gid) override { return gid == kGids[0] || gid == kGids[1]; }
  [[nodiscard]] std::uint16_t take_port(PortSpace space, const SocketAddress& address, PortSharing /*sharing*/,
                                        std::uint64_t owner) override {
    const std::uint16_t port = address.port != 0 ? address.port : next_free_++;
    if (!ports_.try_emplace({space, port}, gids_[0], owner).second) {
      throw IdError(EADDRINUSE, "taken");
    }
    return port;
  }
  void share_port(std::uint64_t /*owner*/, PortSharing /*sharing*/) override {}
  void open_port(std::uint64_t /*owner*/) override {}
  void give_port(std::uint64_t owner) noexcept override {
    std::erase_if(ports_, [&](const auto& port) { return port.second == std::pair(gids_[0], owner); });
  }
  [[nodiscard]] std::optional<Gid> station_at(PortSpace space, const SocketAddress& address) override {
    const auto found = ports_.find({space, address.port});
    return found == ports_.end() ? std::nullopt : std::optional(found->second.first);
  }

 private:
  Ports& ports_;
  std::vector<Gid> gids_;
  std::uint16_t next_free_ = 40'000;
};

struct Program {
  Program(Station::Ports& ports, std::size_t number)
      : station(ports, kGids.at(number)),
        ids(station, {.ca_guid = number + 1, .seed = number + 1}),
        channels{ids.open_channel(), ids.open_channel()} {}

  Station station;
  RdmaIds ids;
  std::array<ChannelNumber, 2> channels;
  std::map<IdNumber, ChannelNumber> made;    // not destroyed yet
  std::map<IdNumber, IdNumber> memberships;  // of groups, with their owners
};

class Scene {
 public:
  explicit Scene(std::span<const std::byte> bytes) : input_(bytes) {}

  CmReached play() {
    // An input costs as much as it is long, and no more.
    constexpr int kMostSteps = 200;
    for (int step = 0; step < kMostSteps && !input_.is_empty(); ++step) {
      Program& program = programs_.at(input_.below(2));
      try {
        call(program);
      } catch (const IdError& error) {
        require_cm(error.error() > 0, "a refusal has an errno");
      }
      collect();
    }
    end();
    return reached_;
  }

 private:
  IdNumber some_id(const Program& program) {
    const std::uint8_t chosen = input_.take();
    if (program.made.empty() || chosen == 0xff) {
      return chosen;
    }
    return std::next(program.made.begin(), static_cast<std::ptrdiff_t>(chosen % program.made.size()))->first;
  }
  ChannelNumber channel_of(const Program& program, IdNumber id) {
    const auto found = program.made.find(id);
    return found == program.made.end() ? program.channels[0] : found->second;
  }
  SocketAddress address() {
    constexpr std::array<std::uint8_t, 4> kLast = {1, 2, 9, 0};
    const std::uint8_t kind = input_.take();
    const std::uint16_t port = static_cast<std::uint16_t>(kind % 8 == 7 ? 0 : 7000 + kind % 3);
    switch (kind / 8 % 4) {
      case 0:
        return {.ip = roce::gid_of({127, 0, 0, 1}), .port = port};
      case 1:
        return {.ip = roce::gid_of({0, 0, 0, 0}), .port = port};
      default:
        return {.ip = roce::gid_of({10, 0, 0, kLast.at(kind / 32 % 4)}), .port = port};
    }
  }
  ConnectionParameters parameters() {
    ConnectionParameters all{.terms = {.queue_pair = input_.take(),
                                       .responder_resources = input_.below(20),
                                       .initiator_depth = input_.below(20),
                                       .retry_count = input_.below(8)}};
    const std::span<const std::byte> data = input_.take_bytes(input_.take());
    all.private_data.assign(data.begin(), data.end());
    return all;
  }

  void call(Program& program) {
    RdmaIds& ids = program.ids;
    const std::uint8_t what = input_.below(22);
    if (what >= 20) {
      group(program, what == 20);
      return;
    }
    if (what >= 13) {
      wire(what);
      return;
    }
    if (what == 0) {
      const PortSpace space = kSpaces.at(input_.below(4));
      const ChannelNumber channel = program.channels.at(input_.below(2));
      const IdNumber id =
          ids.create(channel, 1, space, space == kUdp ? Service::datagram : Service::reliable_connection);
      program.made.emplace(id, channel);
      return;
    }
    const IdNumber id = some_id(program);
    const ChannelNumber channel = channel_of(program, id);
    switch (what) {
      case 1:
        ids.bind(channel, id, address());
        break;
      case 2:
        ids.listen(channel, id, input_.below(4));
        break;
      case 3: {
        const SocketAddress to = address();
        ids.resolve_address(channel, id, std::nullopt, to, 10ms * input_.take(), now_);
        break;
      }
      case 4:
        ids.resolve_route(channel, id);
        break;
      case 5:
        ids.connect(channel, id, parameters(), now_);
        break;
      case 6:
        ids.accept(channel, id, 2, input_.below(4) == 0 ? std::nullopt : std::optional(parameters()), now_);
        break;
      case 7: {
        const std::uint8_t reason = input_.take();
        ids.reject(channel, id, reason, input_.take_bytes(input_.take()), now_);
        break;
      }
      case 8:
        ids.disconnect(channel, id, now_);
        break;
      case 9:
        static_cast<void>(ids.destroy(channel, id, now_));
        program.made.erase(id);
        std::erase_if(program.memberships, [id](const auto& one) { return one.second == id; });
        break;
      case 10: {
        const ChannelNumber to = program.channels.at(input_.below(2));
        static_cast<void>(ids.migrate(channel, id, to));
        if (const auto found = program.made.find(id); found != program.made.end()) {
          found->second = to;
        }
        break;
      }
      case 11:
        ids.notify_established(channel, id);
        break;
      default:
        static_cast<void>(ids.pair_attributes(channel, id));
    }
  }

  void group(Program& program, bool joins) {
    if (joins) {
      const IdNumber id = some_id(program);
      const std::uint8_t kind = input_.below(3);
      const Gid group = kind == 0 ? roce::gid_of({239, 1, 2, 3}) : kind == 1 ? Gid{0xff, 0x12, 1} : kGids[1];
      const ChannelNumber channel = channel_of(program, id);
      program.memberships.emplace(program.ids.join_group(channel, id, 3, {.ip = group, .port = 0}), id);
      return;
    }
    const std::uint8_t chosen = input_.take();
    if (program.memberships.empty() || chosen == 0xff) {
      static_cast<void>(program.ids.leave_group(program.channels[0], chosen));
      return;
    }
    const auto membership =
        std::next(program.memberships.begin(), static_cast<std::ptrdiff_t>(chosen % program.memberships.size()));
    require_cm(program.ids.leave_group(channel_of(program, membership->second), membership->first) <= 1,
               "one event is taken of a membership");
    program.memberships.erase(membership);
  }

  // What the wire, time and a stranger do.
  void wire(std::uint8_t what) {
    switch (what) {
      case 13:
        now_ += 1ms * input_.take();
        advance();
        break;
      case 14:
        now_ += 1s * input_.take();
        advance();
        break;
      case 15: {
        Mad forged{};
        std::ranges::copy(input_.take_bytes(forged.size()), forged.begin());
        arrive({.route = {.local = kGids.at(input_.below(3)), .remote = kGids.at(input_.below(2))}, .mad = forged});
        break;
      }
      case 16: {  // too short, or too long
        const std::span<const std::byte> mad = input_.take_bytes(input_.take());
        programs_[0].ids.on_mad({.local = kGids[0], .remote = kGids[2]}, mad, now_);
        break;
      }
      default:
        const std::uint8_t fate = input_.below(8);
        if (under_way_.empty()) {
          return;
        }
        const auto place = static_cast<std::ptrdiff_t>(what == 17 ? 0 : input_.take() % under_way_.size());
        Outgoing message = under_way_.at(static_cast<std::size_t>(place));
        if (fate != 0) {  // else it comes again
          under_way_.erase(under_way_.begin() + place);
        }
        if (fate == 1) {
          return;  // lost
        }
        if (fate == 2) {
          message.mad.at(input_.take()) = static_cast<std::byte>(input_.take());
        }
        arrive(message);
    }
  }

  void arrive(const Outgoing& message) {
    for (Program& program : programs_) {
      if (program.station.gids()[0] == message.route.remote) {
        program.ids.on_mad({.local = message.route.remote, .remote = message.route.local}, message.mad, now_);
      }
    }
  }

  void advance() {
    for (Program& program : programs_) {
      program.ids.advance(now_);
      require_cm(program.ids.next_deadline() > now_, "what was due was done");
    }
  }

  // What was sent, and what was reported.
  void collect() {
    constexpr std::size_t kMostUnderWay = 64;
    for (Program& program : programs_) {
      for (Outgoing& message : program.ids.take_outgoing()) {
        require_cm(decode(message.mad).has_value(), "what is sent can be read");
        require_cm(message.route.local == program.station.gids()[0], "what is sent is from this station");
        if (under_way_.size() < kMostUnderWay) {
          under_way_.push_back(message);
        }
      }
      for (const ChannelNumber channel : program.channels) {
        while (const std::optional<IdEvent> event = program.ids.next_event(channel)) {
          count(program, channel, *event);
        }
      }
    }
  }

  void count(Program& program, ChannelNumber channel, const IdEvent& event) {
    if (event.kind == IdEventKind::group_joined) {
      ++reached_.joined;
      require_cm(program.made.contains(event.owner) && program.made[event.owner] == channel,
                 "a group is joined by one that exists, on its channel");
      require_cm(program.memberships.contains(event.id), "a membership that was left is not reported");
      return;
    }
    if (event.kind == IdEventKind::connect_request) {
      ++reached_.requests;
      require_cm(program.made.contains(event.owner), "a request is for one that listens");
      require_cm(program.made.emplace(event.id, channel).second, "a request has an identifier of its own");
    }
    require_cm(program.made.contains(event.id), "an event is of one that exists");
    require_cm(program.made[event.id] == channel, "an event comes by the channel of its identifier");
    reached_.established += event.kind == IdEventKind::established ? 1 : 0;
    reached_.ended += event.kind == IdEventKind::disconnected ? 1 : 0;
  }

  void end() {
    for (Program& program : programs_) {
      for (const auto& [id, channel] : program.made) {
        static_cast<void>(program.ids.destroy(channel, id, now_));
      }
      program.made.clear();
    }
    // Nobody answers; repetitions, times of rest and graces pass.
    constexpr int kMostDeadlines = 100'000;
    for (int i = 0; i < kMostDeadlines; ++i) {
      const Time next = std::min(programs_[0].ids.next_deadline(), programs_[1].ids.next_deadline());
      if (next == Time::max()) {
        break;
      }
      now_ = std::max(now_, next);
      advance();
      collect();
    }
    for (Program& program : programs_) {
      require_cm(program.ids.next_deadline() == Time::max(), "without identifiers everything ends");
    }
    require_cm(ports_.empty(), "without identifiers no port is kept");
  }

  Bytes input_;
  Time now_ = 1s;
  Station::Ports ports_;
  std::array<Program, 2> programs_{Program(ports_, 0), Program(ports_, 1)};
  std::vector<Outgoing> under_way_;
  CmReached reached_;
};

}  // namespace
}  // namespace sidelatch::softnic::cm

sidelatch::softnic::cm::CmReached sidelatch::softnic::cm::check_connections(std::span<const std::byte> bytes) {
  return Scene(bytes).play();
}

#ifdef SIDELATCH_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sidelatch::softnic::cm::check_connections(std::as_bytes(std::span(data, size)));
  return 0;
}
#endif
