// Two connection managers and the wire between them, in virtual time, for tests.
//
//   Managers world;
//   const ConnectionId id = world.connect();
//   world.run();                                   // until nothing is on its way
//   world.events(1)                                // what the second manager reported, in order
#pragma once

#include "softnic/cm/connection_manager.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sidelatch::softnic::cm {

[[nodiscard]] inline Gid gid_number(std::uint8_t number) { return roce::gid_of({10, 0, 0, number}); }

/// A MAD that is on its way.
struct InFlight {
  std::size_t to = 0;
  Route route{};  // as the receiver sees it
  Mad mad{};
  [[nodiscard]] Message message() const { return *decode(mad); }
  template <class Body>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<Body>(message().body);
  }
};

class Managers {
 public:
  explicit Managers(std::uint64_t seed = 1)
      : managers_{ConnectionManager({.ca_guid = 0xa, .seed = seed, .occupant = asks_for_occupant()}),
                  ConnectionManager({.ca_guid = 0xb, .seed = seed + 1, .occupant = asks_for_occupant()})},
        random_(seed) {}
  Managers(const Managers&) = delete;
  Managers& operator=(const Managers&) = delete;

  ConnectionManager& operator[](std::size_t side) { return managers_[side]; }
  [[nodiscard]] Time now() const { return now_; }

  [[nodiscard]] static Route route_of(std::size_t side) {
    return {.local = gid_number(static_cast<std::uint8_t>(side + 1)),
            .remote = gid_number(static_cast<std::uint8_t>(2 - side))};
  }
  /// The first manager connects to the second one.
  ConnectionId connect(std::uint32_t queue_pair = 0x100, std::span<const std::byte> data = {}) {
    const ConnectionId id = managers_[0].connect({.route = route_of(0),
                                                  .service_id = 0x1061234,
                                                  .terms = {.queue_pair = queue_pair,
                                                            .responder_resources = 3,
                                                            .initiator_depth = 5,
                                                            .retry_count = 6,
                                                            .rnr_retry_count = 7},
                                                  .private_data = data},
                                                 now_);
    collect();
    return id;
  }

  /// Takes what the managers have sent. `lose` says which messages get lost.
  void collect() {
    while (collect_once()) {
    }
  }
  bool collect_once() {
    bool is_new = false;
    for (std::size_t side = 0; side < managers_.size(); ++side) {
      for (const Outgoing& out : managers_[side].take_outgoing()) {
        InFlight flying{
            .to = 1 - side, .route = {.local = out.route.remote, .remote = out.route.local}, .mad = out.mad};
        ++sent;
        is_new = true;
        if (!lose || !lose(flying)) {
          flying_.push_back(flying);
        } else {
          ++lost;
        }
      }
      for (Event& event : managers_[side].take_events()) {
        if (react) {
          react(side, event);
        }
        events_[side].push_back(std::move(event));
        is_new = true;
      }
    }
    return is_new;
  }
  /// Delivers everything in order, without time passing.
  void run() {
    collect();
    while (!flying_.empty()) {
      const InFlight next = flying_.front();
      flying_.pop_front();
      managers_[next.to].on_mad(next.route, next.mad, now_);
      collect();
    }
  }
  /// The same for as long as there are deadlines before `until`.
  void run_until(Time until) {
    run();
    for (Time next = next_deadline(); next <= until; next = next_deadline()) {
      now_ = next;
      advance();
      run();
    }
    now_ = until;
  }
  [[nodiscard]] Time next_deadline() const {
    return std::min(managers_[0].next_deadline(), managers_[1].next_deadline());
  }
  void advance() {
    for (ConnectionManager& manager : managers_) {
      manager.advance(now_);
    }
  }
  /// One step of a wire that loses, doubles and reorders with these probabilities. False: nothing is left to do.
  bool step_with_faults(double loss, double duplication) {
    collect();
    if (flying_.empty()) {
      const Time next = next_deadline();
      if (next == Time::max()) {
        return false;
      }
      now_ = std::max(now_, next);
      advance();
      return true;
    }
    std::uniform_real_distribution<double> chance(0, 1);
    const std::size_t at = random_() % flying_.size();
    const InFlight next = flying_[at];
    if (chance(random_) >= duplication) {
      flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (chance(random_) >= loss) {
      managers_[next.to].on_mad(next.route, next.mad, now_);
    }
    return true;
  }

  [[nodiscard]] const std::vector<Event>& events(std::size_t side) const { return events_[side]; }
  [[nodiscard]] std::size_t count(std::size_t side, Event::Kind kind) const {
    return static_cast<std::size_t>(
        std::count_if(events_[side].begin(), events_[side].end(), [&](const Event& e) { return e.kind == kind; }));
  }
  [[nodiscard]] const Event& last(std::size_t side) const { return events_[side].back(); }
  std::deque<InFlight>& flying() { return flying_; }

  std::function<bool(const InFlight&)> lose{};
  std::function<void(std::size_t, const Event&)> react{};
  std::size_t sent = 0;
  std::size_t lost = 0;                      // of those, by `lose`
  std::map<Gid, std::uint64_t> occupants{};  // those that the wire knows

 private:
  std::function<std::optional<std::uint64_t>(const Gid&)> asks_for_occupant() {
    return [this](const Gid& gid) {
      const auto found = occupants.find(gid);
      return found == occupants.end() ? std::nullopt : std::optional(found->second);
    };
  }

  std::array<ConnectionManager, 2> managers_;
  std::array<std::vector<Event>, 2> events_;
  std::deque<InFlight> flying_;
  std::mt19937_64 random_;
  Time now_{};
};

using Kind = Event::Kind;

inline constexpr Terms kServer{
    .queue_pair = 0x200, .responder_resources = 5, .initiator_depth = 3, .rnr_retry_count = 7};

inline std::vector<std::byte> bytes(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

/// Accepts, and sets up the queue pair at once.
inline void accept_all(Managers& world) {
  world.react = [&world](std::size_t side, const Event& event) {
    if (event.kind == Kind::connection_request) {
      EXPECT_TRUE(world[side].accept(event.id, kServer, {}, world.now()));
    } else if (event.kind == Kind::connection_reply) {
      EXPECT_TRUE(world[side].confirm(event.id, world.now()));
    }
  };
}

struct Connected {
  Managers world;
  ConnectionId client = 0;
  ConnectionId server = 0;
  explicit Connected(std::uint64_t seed = 1) : world(seed) {
    accept_all(world);
    client = world.connect();
    world.run();
    server = world.events(1).front().id;
    EXPECT_TRUE(world[0].is_established(client));
    EXPECT_TRUE(world[1].is_established(server));
  }
};

/// A kind of message: where its body stands among those of Message.
using MessageKind = std::size_t;
inline constexpr MessageKind kMessageKinds = std::variant_size_v<decltype(Message::body)>;
template <class Body>
MessageKind kind_of() {
  return decltype(Message::body)(Body{}).index();
}

/// Loses the first message of a kind.
inline void lose_first(Managers& world, MessageKind kind) {
  world.lose = [kind, is_lost = false](const InFlight& flying) mutable {
    return flying.message().body.index() == kind && !std::exchange(is_lost, true);
  };
}

}  // namespace sidelatch::softnic::cm
