// There is one definition of dependence: Dependence::between(). Here it is compared with executions of both orders. Two
// neighbouring steps that it calls independent may be swapped: the whole state behind them is the same, and so is what
// may happen next. A step that it calls forced is not possible before the other one.
#include "checker/explore/execution.h"
#include "checker/explore/mutation.h"

#include "checking.h"
#include "clients.h"
#include "oracle/compare.h"
#include "small_programs.h"

#include "tests/fabric/message_scenarios.h"
#include "tests/sampled.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/explore/scheme_program.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;
using fabric::model::Rules;

constexpr std::size_t kMostSteps = 120;

// What is known of the state that an execution has reached.
struct Sight {
  std::vector<std::uint64_t> state;  // of all; or of NICs, queues and store buffers
  std::uint64_t memory = 0;
  std::vector<Action> enabled;
  bool has_failed = false;
  friend bool operator==(const Sight&, const Sight&) = default;
};

struct Tally {
  std::uint64_t independent = 0;
  std::uint64_t of_clients = 0;  // of these: a client ran in one of the two
  std::uint64_t forced = 0;
  std::uint64_t whole_states = 0;  // of those that are independent

  void add(const Tally& other) {
    independent += other.independent;
    of_clients += other.of_clients;
    forced += other.forced;
    whole_states += other.whole_states;
  }
};

class Orders {
 public:
  Orders(const Program& program, const Rules& rules, bool whole, std::uint64_t seed,
         const std::vector<Execution::Changing>& shared)
      : execution_(program, rules), dependence_(rules), whole_(whole), random_(seed) {
    if (!shared.empty()) {
      execution_.order_objects(shared);
    }
    execution_.go_by_states();  // no client parks: that depends on how a state was reached, and is judged elsewhere
  }

  // Objects that clients share. If there are more than it knew of, it must begin again, as a search does.
  [[nodiscard]] const std::vector<Execution::Changing>& shared() const { return execution_.changing_objects(); }

  // Walks by chance, then swaps each two neighbours that are independent. Returns what is wrong.
  std::string compare(Tally& tally) {
    execution_.runs_below(__builtin_frame_address(0));
    walk();
    const std::vector<std::vector<RequestTimes>> times = execution_.times();
    for (std::size_t i = 0; i + 1 < actions_.size(); ++i) {
      const Dependence::Relation relation = dependence_.between(events_[i], events_[i + 1], times);
      if (relation == Dependence::Relation::race) {
        continue;
      }
      go_to(i);
      const bool is_possible = can(actions_[i + 1]);
      const std::string both = fmt::format("{} and {}", to_string(actions_[i]), to_string(actions_[i + 1]));
      if (relation == Dependence::Relation::forced) {
        ++tally.forced;
        if (is_possible) {
          return fmt::format("{} are called forced, and the second is possible first", both);
        }
        continue;
      }
      if (!is_possible) {
        return fmt::format("{} are called independent, and the second is not possible first", both);
      }
      execution_.repeat(actions_[i + 1]);
      if (!can(actions_[i])) {
        return fmt::format("{} are called independent, and the first is not possible behind the second", both);
      }
      execution_.repeat(actions_[i]);
      const Sight swapped = look();
      if (swapped.has_failed && seen_[i + 2].has_failed) {
        continue;  // nothing runs on behind a failure
      }
      if (swapped != seen_[i + 2]) {
        return fmt::format("{} are called independent, and {} differ", both,
                           swapped.memory != seen_[i + 2].memory     ? "the bytes of memory"
                           : swapped.enabled != seen_[i + 2].enabled ? "the steps that follow"
                                                                     : "the states behind them");
      }
      ++tally.independent;
      tally.whole_states += whole_ ? 1U : 0U;
      tally.of_clients += events_[i].ran || events_[i + 1].ran ? 1U : 0U;
      if (!whole_) {
        // What clients know is not compared. Then all that follows must go the same way.
        for (std::size_t k = i + 2; k < actions_.size(); ++k) {
          if (!can(actions_[k])) {
            return fmt::format("{} are called independent, and {} is not possible later", both, to_string(actions_[k]));
          }
          execution_.repeat(actions_[k]);
        }
        if (look() != seen_.back()) {
          return fmt::format("{} are called independent, and the ends differ", both);
        }
      }
    }
    return "";
  }

 private:
  void walk() {
    actions_.clear();
    events_.clear();
    seen_.clear();
    execution_.begin();
    seen_.push_back(look());
    bool crashed = false;
    while (actions_.size() < kMostSteps && !seen_.back().enabled.empty() && !seen_.back().has_failed) {
      Action action = seen_.back().enabled[random_() % seen_.back().enabled.size()];
      Event event;
      event.action = action;
      execution_.apply(action, event);
      if (event.may_crash && !crashed && random_() % 4 == 0) {
        // The client crashes behind some of its posts instead.
        go_to(actions_.size());
        action.crash = static_cast<std::uint16_t>(1 + random_() % (event.posts.size() + 1));
        if (event.begins && random_() % 2 == 0) {
          action.crash = Action::kNeverBegins;
        }
        event = {};
        event.action = action;
        execution_.apply(action, event);
        crashed = true;
      }
      actions_.push_back(action);
      events_.push_back(event);
      seen_.push_back(look());
    }
  }

  void go_to(std::size_t count) {
    execution_.begin();
    for (std::size_t i = 0; i < count; ++i) {
      execution_.repeat(actions_[i]);
    }
  }

  bool can(const Action& action) {
    execution_.enabled(enabled_);
    return std::ranges::any_of(enabled_, [&](const Action& other) { return other.same_step(action); });
  }

  Sight look() {
    Sight seen;
    seen.has_failed = execution_.failure() != nullptr;
    seen.memory = execution_.memory_hash();
    if (!seen.has_failed) {
      execution_.enabled(seen.enabled);
    }
    if (whole_) {
      execution_.append_state(seen.state);
    } else {
      const fabric::model::Machine& machine = execution_.machine();
      static const std::vector<std::uint32_t> known(64, 0);  // no program has more queue pairs
      // Not where the bytes lie: values of tasks have other addresses in each order.
      machine.append_state(
          known, [](const std::byte* byte) { return byte == nullptr ? 0U : 1U; }, seen.state);
    }
    return seen;
  }

  Execution execution_;
  Dependence dependence_;
  bool whole_;
  std::mt19937_64 random_;
  std::vector<Action> actions_;
  std::vector<Event> events_;
  std::vector<Sight> seen_;  // before each action, and at the end
  std::vector<Action> enabled_;
};

std::uint64_t programs() { return kSanitized ? 10 : (takes_long() ? 2'000 : 60); }
constexpr int kWalks = 4;

// `whole`: half of the programs are compared by whole states, with what clients know. That needs programs that free no
// memory and never crash: an address in a dead variable is another one in each order.
template <class Make>
Tally compare_all(const Make& make, bool whole = false) {
  Tally tally;
  for (const Preset preset : kPresets) {
    for (std::uint64_t seed = 1; seed <= programs(); ++seed) {
      const auto [program, text] = make(seed);
      const Rules rules = oracle::rules_for(preset, seed);
      std::vector<Execution::Changing> shared;
      for (bool begins_again = true; begins_again;) {
        Tally own;
        std::string wrong;
        Orders orders(program, rules, whole && seed % 2 == 0 && text.find("may crash") == std::string::npos, seed,
                      shared);
        for (int i = 0; i < kWalks && wrong.empty(); ++i) {
          wrong = orders.compare(own);
        }
        begins_again = orders.shared().size() > shared.size();
        if (begins_again) {
          shared = orders.shared();
          continue;
        }
        EXPECT_EQ(wrong, "") << name(preset) << ", seed " << seed << "\n" << text;
        tally.add(own);
      }
    }
  }
  return tally;
}

void expect_enough(const Tally& tally) {
  std::cout << fmt::format("{} independent pairs, {} of them with whole states, {} with a client's step; {} forced\n",
                           tally.independent, tally.whole_states, tally.of_clients, tally.forced);
  const std::uint64_t each = programs();
  EXPECT_GT(tally.independent, 20 * each);
  EXPECT_GT(tally.of_clients, 2 * each);
  EXPECT_GT(tally.forced, 2 * each);
}

std::pair<Program, std::string> small_program(std::uint64_t seed) {
  const SmallProgram program = random_program(seed);
  return {program_of(program), program.to_string()};
}

std::pair<Program, std::string> waiting_program(std::uint64_t seed) {
  const oracle::ProgramList program = oracle::random_list(seed);
  return {oracle::program_of(program), program.to_string()};
}

TEST(DependenceOfSteps, AgreesWithBothOrdersOfSmallPrograms) {
  const Tally tally = compare_all(small_program, true);
  expect_enough(tally);
  EXPECT_GT(tally.whole_states, 10 * programs());
}

TEST(DependenceOfSteps, AgreesWithBothOrdersOfProgramsThatWait) { expect_enough(compare_all(waiting_program)); }

TEST(DependenceOfSteps, AgreesWithBothOrdersOfMessages) {
  using fabric::two_sided::MessageSite;
  const auto messages = [](std::uint64_t seed) {
    const auto& all = fabric::two_sided::kMessageScenarios;
    const auto& scenario = all[seed % std::size(all)];
    const Program program = [&scenario](World& world) {
      fabric::Node& first = world.add_node("receiver");
      fabric::Node& second = world.add_node("sender");
      auto& site = world.make<MessageSite>(first, second,
                                           [&world](bool holds, std::string_view what) { world.require(holds, what); });
      world.spawn(first, scenario.receiver(&site, site.sides.data(), &site.sides[1]));
      world.spawn(second, scenario.sender(&site, &site.sides[1], site.sides.data()));
    };
    return std::pair{program, std::string(scenario.name)};
  };
  const Tally tally = compare_all(messages);
  EXPECT_GT(tally.independent, programs());
  EXPECT_GT(tally.forced, programs());
}

TEST(DependenceOfSteps, AgreesWithBothOrdersOfSchemes) {
  const auto schemes = [](std::uint64_t seed) {
    const std::span<const checker::SchemeEntry> all = checker::schemes();
    const checker::SchemeEntry& entry = all[seed % all.size()];
    Workload shape{.writers = 2, .updates = 1, .readers = 1, .lines = 2};
    if (seed % 3 == 0) {
      shape = {.writers = 1, .updates = 2, .readers = 1, .lines = 3};
    }
    static std::map<std::string_view, std::unique_ptr<sync::Scheme>> made;  // they outlive the programs
    std::unique_ptr<sync::Scheme>& scheme = made[entry.name];
    if (scheme == nullptr) {
      scheme = entry.make();
    }
    return std::pair{scheme_program(*scheme, entry.promise, shape), std::string(entry.name)};
  };
  expect_enough(compare_all(schemes));
}

// ---- A message that comes behind its receiver's crash would have been told before it.

struct SilencedMail {
  explicit SilencedMail(World& its_world)
      : world(&its_world),
        receiver(&its_world.add_node("receiver")),
        sender(&its_world.add_node("sender")),
        inbox(receiver->allocate(64, fabric::Access::local_write)),
        out(sender->allocate(64, fabric::Access::local_write)),
        ends(receiver->connect_pair(*sender)) {}
  World* world;
  fabric::Node* receiver;
  fabric::Node* sender;
  fabric::MemoryRegion inbox;
  fabric::MemoryRegion out;
  std::pair<std::unique_ptr<fabric::QueuePair>, std::unique_ptr<fabric::QueuePair>> ends;
};
fabric::Task<void> receive_mail(SilencedMail* mail) {
  const bool posted = mail->ends.first->post_receive(mail->inbox.local());
  mail->world->require(posted, "a receive buffer found no room");
  static_cast<void>(co_await mail->ends.first->receive());
}
fabric::Task<void> yield_beside(SilencedMail* mail) { co_await mail->world->yield(*mail->receiver); }
fabric::Task<void> send_mail(SilencedMail* mail) {
  co_await mail->ends.second->submit(fabric::send(mail->out.local()));
}
void mail_for_one_who_may_crash(World& world) {
  auto& mail = world.make<SilencedMail>(world);
  world.may_crash(*mail.receiver);
  world.spawn(*mail.receiver, receive_mail(&mail));
  world.spawn(*mail.receiver, yield_beside(&mail));
  world.spawn(*mail.sender, send_mail(&mail));
}

TEST(DependenceOfSteps, ACrashAndAMessageThatItSilencesAreDependent) {
  using fabric::model::StepKind;
  constexpr std::uint16_t kReceiver = 0;  // its node is the first
  for (const Preset preset : kPresets) {
    Execution execution(mail_for_one_who_may_crash, rules_of(preset));
    execution.runs_below(__builtin_frame_address(0));
    execution.begin();
    const auto yields = [](const Action& action) {  // its tasks begin as 0 and 1
      return action.sort == Action::Sort::client && action.owner == kReceiver && action.index >= 2;
    };
    const auto tells = [](const Action& action) {
      return action.sort == Action::Sort::machine &&
             (action.kind == StepKind::receive || action.kind == StepKind::execute);
    };
    std::vector<Action> actions;
    for (;;) {
      execution.enabled(actions);
      const auto next =
          std::ranges::find_if(actions, [&](const Action& action) { return !yields(action) && !tells(action); });
      if (next == actions.end()) {
        break;
      }
      execution.repeat(*next);
    }
    const auto step = std::ranges::find_if(actions, yields);
    ASSERT_NE(step, actions.end()) << name(preset);
    Action stop = *step;
    stop.crash = 1;
    Event crash;
    execution.apply(stop, crash);
    execution.enabled(actions);
    const auto message = std::ranges::find_if(actions, tells);
    ASSERT_NE(message, actions.end()) << name(preset);
    Event telling;
    execution.apply(*message, telling);
    EXPECT_EQ(Dependence(rules_of(preset)).between(crash, telling, execution.times()), Dependence::Relation::race)
        << name(preset);
  }
}

// What the comparison is worth: without a part of the definition it finds a difference.
TEST(DependenceOfSteps, WhatIsLeftOutIsFound) {
  for (const Mutation mutation : {Mutation::memory_is_no_race, Mutation::rule_2_is_no_race}) {
    planted_mutation = mutation;
    bool is_found = false;
    for (std::uint64_t seed = 1; seed <= 400 && !is_found; ++seed) {
      Tally tally;
      Orders orders(small_program(seed).first, rules_of(Preset::observed), true, seed, {});
      is_found = !orders.compare(tally).empty();
    }
    planted_mutation = Mutation::none;
    EXPECT_TRUE(is_found) << static_cast<int>(mutation);
  }
}

}  // namespace
}  // namespace sidelatch::explore
