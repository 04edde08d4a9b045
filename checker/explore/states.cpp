#include "states.h"

#include "mutation.h"

#include <sidelatch/checker/parallel.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace sidelatch::explore {

namespace {

__extension__ using Wide = unsigned __int128;

std::uint64_t folded(std::uint64_t a, std::uint64_t b) noexcept {
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// The order of one execution, step by step.
class StepOrder final : public Order {
 public:
  [[nodiscard]] bool before(Moment first, Moment second) const override { return first <= second; }
  [[nodiscard]] const std::vector<Access>& changes() const override { return asked(); }
  [[nodiscard]] const std::vector<Access>& samples() const override { return asked(); }
  [[nodiscard]] bool was_asked() const noexcept { return asked_; }

 private:
  [[nodiscard]] const std::vector<Access>& asked() const {
    asked_ = true;
    return none_;
  }
  std::vector<Access> none_;
  mutable bool asked_ = false;
};

// Steps that go first are run at once, as long as they are not too many: a state in between need not be kept.
constexpr std::uint32_t kMostFirstSteps = 64;
// Not states alone are bounded: the paths to them may be long.
constexpr std::uint64_t kMostEventsPerState = 400;
// Why this search cannot decide a program.
struct Unable {
  const char* why;
};
constexpr const char* kReadsAccesses = "its judges ask for accesses to memory";
// The first states, and one of so many, are reached twice, to see whether they are the same.
constexpr std::uint32_t kFirstReachedTwice = 64;
constexpr std::uint32_t kReachTwice = 64;

}  // namespace

// Four chains, which a processor follows at once: each takes every fourth word, and the last step takes them together.
StateHash hash_of(const std::vector<std::uint64_t>& words) noexcept {
  constexpr std::size_t kChains = 4;
  const auto add = [](StateHash& hash, std::uint64_t word) {
    hash.first = folded(hash.first ^ word, 0xa076'1d64'78bd'642f) + word;
    hash.second = folded(hash.second ^ std::rotl(word, 32), 0xe703'7ed1'a0b4'28db) + (word ^ 0x8ebc'6af0'9c88'c6e3);
  };
  std::array<StateHash, kChains> chains;
  for (std::size_t i = 0; i < kChains; ++i) {
    chains.at(i) = {0x9e37'79b9'7f4a'7c15 * (i + 1), 0xc2b2'ae3d'27d4'eb4f * (i + 1)};
  }
  std::size_t at = 0;
  for (; at + kChains <= words.size(); at += kChains) {
    add(chains[0], words[at]);
    add(chains[1], words[at + 1]);
    add(chains[2], words[at + 2]);
    add(chains[3], words[at + 3]);
  }
  StateHash hash{0x9e37'79b9'7f4a'7c15 ^ words.size(), 0xc2b2'ae3d'27d4'eb4f};
  for (; at < words.size(); ++at) {
    add(hash, words[at]);
  }
  for (const StateHash& chain : chains) {
    add(hash, chain.first);
    add(hash, chain.second);
  }
  return hash;
}

std::uint32_t StateTable::find(const StateHash& hash) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash.first & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.number == kNone || slot.hash == hash) {
      return slot.number;
    }
  }
}

std::uint32_t StateTable::insert(const StateHash& hash, std::uint32_t number) {
  if (used_ * 2 >= slots_.size()) {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (const Slot& slot : old) {
      if (slot.number != kNone) {
        insert(slot.hash, slot.number);
      }
    }
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash.first & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.number == kNone) {
      slot = {hash, number};
      ++used_;
      return number;
    }
    if (slot.hash == hash) {
      return slot.number;
    }
  }
}

StateSearch::Hand::Hand(const Program& program, const Options& options)
    : execution(program, options.rules, options.writing_retries) {
  execution.go_by_states();
  if (options.look_at_counters) {
    execution.compare_tallies();
  }
  if (options.part_posts) {
    execution.part_posts();
  }
  if (options.part_completions) {
    execution.part_completions();
  }
}

StateSearch::StateSearch(const Program& program, const Options& options, unsigned threads,
                         std::optional<std::chrono::steady_clock::time_point> deadline,
                         const std::vector<Execution::Changing>& changing)
    : program_(&program), options_(options), threads_(std::max(1U, threads)), deadline_(deadline) {
  static_cast<void>(objects_.add(changing));
  hands_.resize(threads_);
}

StateSearch::Hand& StateSearch::hand(std::size_t slot) {
  if (hands_[slot] == nullptr) {
    hands_[slot] = std::make_unique<Hand>(*program_, options_);
    if (stack_low_ != 0) {
      hands_[slot]->execution.leave_out_stack(stack_low_, stack_top_);
    }
    if (compares_clock_) {
      hands_[slot]->execution.compare_clock();
    }
    if (orders_revocations_) {
      hands_[slot]->execution.order_revocations();
    }
    if (options_.order_objects) {
      hands_[slot]->execution.order_objects(objects_.changing());
    }
  }
  return *hands_[slot];
}

bool StateSearch::late() const {
  return (deadline_ && std::chrono::steady_clock::now() > *deadline_) ||
         (options_.interrupted != nullptr && options_.interrupted->load(std::memory_order_relaxed));
}

StatesResult StateSearch::run() {
  constexpr unsigned kMostObjects = 200;  // that are found to change one after the other
  for (unsigned times = 0;; ++times) {
    StatesResult result = search();
    bool clock = false;
    bool tallies = false;
    bool revokes = false;
    bool revokes_of_the_living = false;
    bool shares = false;
    bool knows_more = false;  // objects that change
    for (const auto& hand : hands_) {
      if (hand != nullptr) {
        knows_more = objects_.add(hand->execution.changing_objects()) || knows_more;
        objects_.add(hand->execution.looks_behind());
        if (!result.blind_spot) {
          result.blind_spot = hand->execution.blind_spot();
        }
      }
      clock = clock || (hand != nullptr && hand->execution.reads_clock());
      tallies = tallies || (hand != nullptr && hand->execution.reads_counters());
      shares = shares || (hand != nullptr && hand->execution.shares_objects());
      if (hand != nullptr && !has(Mutation::revocations_come_last)) {
        revokes = revokes || hand->execution.revokes();
        revokes_of_the_living = revokes_of_the_living || hand->execution.revokes_of_the_living();
      }
    }
    // A client that repeats steps which touch nothing waits for an object of the process, which another changes.
    shares = shares || is_local_;
    const bool knows_objects = options_.order_objects && !knows_more;
    const bool is_exact = (!clock || compares_clock_) && (!tallies || options_.look_at_counters) &&
                          (!shares || knows_objects || result.found);
    if (!result.blind_spot && objects_.blind_spot() != nullptr) {
      result.blind_spot = BlindSpot{*objects_.blind_spot(), true};
    }
    const bool is_blind = result.blind_spot && result.blind_spot->parting_helps && !options_.part_posts;
    if (knows_more && times > kMostObjects && !result.blind_spot) {
      result.blind_spot = BlindSpot{"an object that clients share and that lies at another place each time,"};
    }
    // Then the answer is that it is not decided, and a search that knows more changes nothing.
    const bool stays_blind = result.blind_spot && options_.order_objects &&
                             (!result.blind_spot->parting_helps || options_.part_posts || times > kMostObjects);
    const bool knows_revocations =
        (!revokes || orders_revocations_) && (!revokes_of_the_living || options_.part_completions);
    if ((is_exact && (knows_revocations || result.found) && (!is_blind || result.found)) || stays_blind) {
      result.orders_objects = options_.order_objects;
      result.parts_posts = options_.part_posts;
      result.parts_completions = options_.part_completions;
      return result;
    }
    objects_.forget_looks();  // objects that are known to change now are watched from the beginning
    options_.part_posts = options_.part_posts || (is_blind && is_exact);
    compares_clock_ = compares_clock_ || clock;
    orders_revocations_ = orders_revocations_ || revokes;
    options_.part_completions = options_.part_completions || revokes_of_the_living;
    options_.look_at_counters = options_.look_at_counters || tallies;
    options_.order_objects = options_.order_objects || shares;
    hands_.clear();
    hands_.resize(threads_);
  }
}

void StateSearch::path_to(std::uint32_t state, std::vector<Action>& path) const {
  path.resize(nodes_[state].length);
  for (std::uint32_t at = state; at != StateTable::kNone; at = nodes_[at].parent) {
    const Node& node = nodes_[at];
    std::copy_n(actions_.begin() + static_cast<std::ptrdiff_t>(node.begin), node.count,
                path.begin() + static_cast<std::ptrdiff_t>(node.length - node.count));
  }
}

void StateSearch::go_first(Hand& hand, std::vector<Action>& actions, std::vector<std::uint32_t>& names) {
  Execution& execution = hand.execution;
  for (std::uint32_t i = 0; i < kMostFirstSteps && execution.failure() == nullptr; ++i) {
    execution.enabled(hand.enabled);
    const auto first =
        std::ranges::find_if(hand.enabled, [&](const Action& action) { return execution.may_come_first(action); });
    if (first == hand.enabled.end()) {
      break;
    }
    const Action action = *first;
    actions.push_back(action);
    names.push_back(execution.lasting_name(action));
    execution.repeat(action);
  }
}

// Goes on with steps that go first, and looks at the state behind them.
void StateSearch::finish(Hand& hand, Next& next, std::uint64_t& events) {
  Execution& execution = hand.execution;
  go_first(hand, next.actions, next.beside);
  events += next.actions.size();
  next.is_cut = execution.is_cut();
  if (execution.failure() != nullptr) {
    next.failure = *execution.failure();
    return;
  }
  hand.words.clear();
  execution.append_state(hand.words);
  next.hash = hash_of(hand.words);
  if (table_.find(next.hash) != StateTable::kNone) {
    return;
  }
  execution.enabled(hand.enabled);
  if (!hand.enabled.empty() || next.is_cut) {
    return;
  }
  next.is_end = true;
  execution.require_ended();
  if (execution.failure() == nullptr) {
    const StepOrder order;
    execution.judge(order);
    if (order.was_asked()) {
      throw Unable{kReadsAccesses};
    }
  }
  if (execution.failure() != nullptr) {
    next.failure = *execution.failure();
  }
}

void StateSearch::expand(Hand& hand, std::uint32_t state, Expansion& result) {
  Execution& execution = hand.execution;
  path_to(state, hand.path);
  const auto go_there = [&](void (Execution::*step)(const Action&)) {
    execution.begin();
    for (const Action& action : hand.path) {
      (execution.*step)(action);
    }
    result.events += hand.path.size();
  };
  go_there(&Execution::retrace);
  if (state < kFirstReachedTwice || state % kReachTwice == 0) {
    std::vector<Action> once;
    execution.enabled(once);
    const std::uint64_t memory = execution.memory_hash();
    execution.look_closely(true);
    go_there(&Execution::repeat);
    execution.look_closely(false);
    execution.enabled(hand.enabled);
    if (hand.enabled != once || execution.memory_hash() != memory) {
      throw std::logic_error(kDiffers);
    }
  }
  execution.append_waiting_atomics(result.waiting);
  std::vector<Action> enabled;
  execution.enabled(enabled);
  // Clients that run may turn out to need no other order.
  std::ranges::stable_partition(enabled, [&](const Action& action) {
    return action.sort == Action::Sort::client || action.kind == fabric::model::StepKind::complete;
  });
  for (std::size_t i = 0; i < enabled.size(); ++i) {
    if (i != 0) {
      go_there(&Execution::retrace);
    }
    Next next;
    next.name = execution.lasting_name(enabled[i]);
    next.actions.push_back(enabled[i]);
    execution.repeat(enabled[i]);
    const bool alone = execution.could_come_first();
    finish(hand, next, result.events);
    if (alone) {
      result.next.clear();
      result.waiting.clear();
      result.next.push_back(std::move(next));
      result.leaving = Leaving::first;
      return;
    }
    result.next.push_back(std::move(next));
  }
}

Found StateSearch::found_at(std::uint32_t state, const std::vector<Action>& more, const Failure& failure) const {
  Found found;
  found.failure = failure;
  found.by_states = true;
  found.orders_objects = options_.order_objects;
  found.parts_posts = options_.part_posts;
  found.parts_completions = options_.part_completions;
  path_to(state, found.choices);
  found.choices.insert(found.choices.end(), more.begin(), more.end());
  found.events = found.choices.size();
  return found;
}

StatesResult StateSearch::search() {
  table_ = {};
  nodes_.clear();
  actions_.clear();
  edges_.clear();
  leaving_.clear();
  edges_begin_.assign(1, 0);
  cut_.reset();
  leads_back_ = true;
  is_local_ = false;
  StatesResult result;
  const void* const stack_top = __builtin_frame_address(0);
  stack_low_ = lowest_of_this_stack();
  stack_top_ = reinterpret_cast<std::uintptr_t>(stack_top);
  {
    Hand& first = hand(0);
    first.execution.runs_below(stack_top);
    first.execution.require_same_builds();
    first.execution.begin();
    Next start;
    try {
      finish(first, start, result.events);
      result.unable = first.execution.no_states();
    } catch (const Unable& error) {
      result.unable = error.why;
    }
    if (result.unable != nullptr) {
      return result;
    }
    if (start.failure) {
      Found found;
      found.failure = *start.failure;
      found.by_states = true;
      result.found = found;
      return result;
    }
    table_.insert(start.hash, 0);
    nodes_.push_back({StateTable::kNone, static_cast<std::uint32_t>(start.actions.size()), 0,
                      static_cast<std::uint32_t>(start.actions.size())});
    actions_ = start.actions;
    result.judged += start.is_end ? 1 : 0;
  }
  std::uint32_t level_begin = 0;
  while (level_begin < nodes_.size() && !result.found && result.bound.empty()) {
    const auto level_end = static_cast<std::uint32_t>(nodes_.size());
    constexpr std::uint32_t kAtOnce = 4096;
    for (std::uint32_t begin = level_begin; begin < level_end && !result.found; begin += kAtOnce) {
      const std::uint32_t count = std::min(kAtOnce, level_end - begin);
      std::vector<Expansion> expansions(count);
      std::atomic<std::uint32_t> next_state{0};
      std::atomic<const char*> unable{nullptr};
      const auto work = [&](std::size_t slot) {
        Hand& own = hand(slot);
        own.execution.runs_below(__builtin_frame_address(0));
        try {
          for (std::uint32_t i = next_state++; i < count && unable == nullptr; i = next_state++) {
            expand(own, begin + i, expansions[i]);
            if (own.execution.no_states() != nullptr) {
              unable = own.execution.no_states();
            }
          }
        } catch (const Unable& error) {
          unable = error.why;
        }
      };
      const std::size_t slots = std::min<std::size_t>(threads_, (count + 7) / 8);
      if (slots <= 1) {
        work(0);
      } else {
        checker::for_each_index(slots, work);
      }
      if (unable != nullptr) {
        result = {};
        result.unable = unable;
        return result;
      }
      for (std::uint32_t i = 0; i < count && !result.found; ++i) {
        Expansion& expansion = expansions[i];
        result.events += expansion.events;
        Leaving leaving = expansion.leaving;
        for (Next& next : expansion.next) {
          if (next.failure) {
            result.found = found_at(begin + i, next.actions, *next.failure);
            break;
          }
          const auto fresh = static_cast<std::uint32_t>(nodes_.size());
          const std::uint32_t known = table_.find(next.hash);
          if (known == StateTable::kNone && next.is_cut) {
            // It stays possible, and nobody knows what follows.
            leaving = Leaving::unknown;
            if (!has(Mutation::cut_steps_are_not_possible)) {
              edges_.push_back({StateTable::kNone, next.name});
            }
            for (const auto& own : hands_) {
              const std::optional<Cut> cut = own == nullptr ? std::nullopt : own->execution.first_cut();
              if (!cut_ || (cut_->other.empty() && cut && !cut->other.empty())) {
                cut_ = cut;
              }
            }
            continue;
          }
          const std::uint32_t target = known != StateTable::kNone ? known : table_.insert(next.hash, fresh);
          if (target == fresh) {
            nodes_.push_back({begin + i, nodes_[begin + i].length + static_cast<std::uint32_t>(next.actions.size()),
                              actions_.size(), static_cast<std::uint32_t>(next.actions.size())});
            actions_.insert(actions_.end(), next.actions.begin(), next.actions.end());
            result.judged += next.is_end ? 1 : 0;
          }
          edges_.push_back({target, next.name});
          for (const std::uint32_t name : next.beside) {
            edges_.push_back({target, name, true});
          }
        }
        for (const std::uint32_t name : expansion.waiting) {
          if (has(Mutation::waiting_is_not_possible)) {
            break;
          }
          edges_.push_back({StateTable::kNone, name});
        }
        edges_begin_.push_back(edges_.size());
        leaving_.push_back(leaving);
      }
      const bool too_long = result.events > options_.max_states * kMostEventsPerState;
      if (!result.found && (late() || too_long || nodes_.size() > options_.max_states)) {
        result.bound = !late() ? fmt::format("{} states", options_.max_states)
                       : deadline_ && std::chrono::steady_clock::now() > *deadline_
                           ? fmt::format("a budget of {:g} s", options_.budget.count())
                           : "an interrupt";
        break;
      }
      if (options_.progress) {
        options_.progress(nodes_.size());
      }
    }
    level_begin = level_end;
  }
  result.states = nodes_.size();
  result.edges = edges_.size();
  if (!result.found) {
    result.found = endless();
  }
  if (!result.found && result.bound.empty() && !leads_back_) {
    result.bound = "a cycle whose steps, taken again, did not lead back to where they began,";
  }
  if (!result.found && result.bound.empty() && cut_ && !has(Mutation::cuts_are_not_told)) {
    result.bound = to_string(*cut_);
    result.only_loops = cut_->other.empty();
  }
  return result;
}

std::optional<Found> StateSearch::endless() {
  leaving_.resize(nodes_.size(), Leaving::unknown);
  edges_begin_.resize(nodes_.size() + 1, edges_.size());
  const std::optional<Endless> endless = find_endless(edges_begin_, edges_, leaving_);
  const bool may_give_up =
      std::ranges::any_of(hands_, [](const auto& hand) { return hand != nullptr && hand->execution.asks_time(); });
  if (!endless || may_give_up || has(Mutation::nobody_is_stuck)) {
    return std::nullopt;
  }
  const auto went_first = [&](std::uint32_t state) { return leaving_[state] == Leaving::first; };
  if (!options_.order_objects && std::ranges::all_of(endless->cycle, went_first)) {
    is_local_ = true;
    return std::nullopt;
  }
  Failure failure;
  failure.at_end = true;
  failure.kind = endless->is_deadlock ? Kind::deadlock : Kind::livelock;
  Found found = found_at(endless->cycle.front(), {}, failure);
  found.repeats_from = found.choices.size();
  // The edges have their names; the actions follow.
  Hand& first = hand(0);
  first.execution.begin();
  for (const Action& action : found.choices) {
    first.execution.repeat(action);
  }
  std::vector<std::uint64_t> before;
  first.execution.append_state(before);
  const std::string who = first.execution.unended();
  if (who.empty()) {
    first.execution.note_unended_spawned();
    return std::nullopt;
  }
  const bool is_one = who.find(',') == std::string::npos;
  found.failure.what = endless->is_deadlock
                           ? fmt::format("{} wait{} for what no longer changes", who, is_one ? "s" : "")
                           : fmt::format("{} {} and may repeat that for ever", who,
                                         is_one ? "fails, undoes what it did," : "fail, undo what they did,");
  std::vector<std::uint32_t> beside;
  for (std::size_t i = 0; i < endless->cycle.size(); ++i) {
    const std::uint32_t name = edges_[edges_begin_[endless->cycle[i]] + endless->cycle_edges[i]].name;
    first.execution.enabled(first.enabled);
    const auto action = std::ranges::find_if(
        first.enabled, [&](const Action& other) { return first.execution.lasting_name(other) == name; });
    if (action == first.enabled.end()) {
      throw std::logic_error("explorer: a step of a cycle is not possible where it was taken");
    }
    const Action taken = *action;
    found.choices.push_back(taken);
    first.execution.repeat(taken);
    go_first(first, found.choices, beside);
  }
  first.words.clear();
  first.execution.append_state(first.words);
  if (first.words != before) {
    leads_back_ = false;
    return std::nullopt;
  }
  found.events = found.choices.size();
  return found;
}

}  // namespace sidelatch::explore
