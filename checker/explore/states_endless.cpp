// What may go on for ever: parts of a state graph in which each state can be reached from each (Tarjan 1972), and in
// which no action stays possible without being taken.
#include "mutation.h"
#include "states.h"

#include <algorithm>
#include <deque>
#include <set>
#include <span>
#include <utility>

namespace sidelatch::explore {

namespace {

struct Graph {
  const std::vector<std::uint64_t>* begin;
  const std::vector<StateEdge>* edges;

  [[nodiscard]] std::span<const StateEdge> of(std::uint32_t state) const {
    return {edges->data() + (*begin)[state], edges->data() + (*begin)[state + 1]};
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(begin->size() - 1); }
};

// Numbers of the strongly connected components, by state.
std::vector<std::uint32_t> components_of(const Graph& graph, std::uint32_t& count) {
  constexpr std::uint32_t kUnseen = 0;
  std::vector<std::uint32_t> index(graph.size(), kUnseen);
  std::vector<std::uint32_t> low(graph.size(), 0);
  std::vector<std::uint32_t> component(graph.size(), StateTable::kNone);
  std::vector<std::uint32_t> open;
  struct Frame {
    std::uint32_t state;
    std::uint32_t next;
  };
  std::vector<Frame> frames;
  std::uint32_t clock = 0;
  count = 0;
  for (std::uint32_t root = 0; root < graph.size(); ++root) {
    if (index[root] != kUnseen) {
      continue;
    }
    frames.push_back({root, 0});
    while (!frames.empty()) {
      Frame& frame = frames.back();
      const std::uint32_t state = frame.state;
      if (frame.next == 0) {
        index[state] = low[state] = ++clock;
        open.push_back(state);
      }
      const std::span<const StateEdge> edges = graph.of(state);
      bool descends = false;
      while (frame.next < edges.size() && !descends) {
        const std::uint32_t target = edges[frame.next++].target;
        if (target == StateTable::kNone) {
          continue;
        }
        if (index[target] == kUnseen) {
          frames.push_back({target, 0});  // invalidates `frame`
          descends = true;
          break;
        }
        if (component[target] == StateTable::kNone) {
          low[state] = std::min(low[state], index[target]);
        }
      }
      if (descends) {
        continue;
      }
      if (low[state] == index[state]) {
        for (;;) {
          const std::uint32_t member = open.back();
          open.pop_back();
          component[member] = count;
          if (member == state) {
            break;
          }
        }
        ++count;
      }
      frames.pop_back();
      if (!frames.empty()) {
        low[frames.back().state] = std::min(low[frames.back().state], low[state]);
      }
    }
  }
  return component;
}

class Part {
 public:
  Part(const Graph& graph, const std::vector<std::uint32_t>& component, const std::vector<Leaving>& leaving,
       std::vector<std::uint32_t> members)
      : graph_(&graph), component_(&component), leaving_(&leaving), members_(std::move(members)) {}

  [[nodiscard]] bool leads_out() const {
    return std::ranges::any_of(members_, [&](std::uint32_t state) {
      return (*leaving_)[state] == Leaving::unknown ||
             std::ranges::any_of(graph_->of(state), [&](const StateEdge& edge) {
               return edge.target != StateTable::kNone && !is_inside(state, edge.target);
             });
    });
  }

  // Weakly fair: no action is possible in all of its states and taken in none. A state that is left by one action that
  // goes first says nothing of the others: they stay possible behind it.
  [[nodiscard]] bool is_fair() const {
    std::set<std::uint32_t> stays;
    bool is_first = true;
    for (const std::uint32_t state : members_) {
      const std::span<const StateEdge> edges = graph_->of(state);
      if ((*leaving_)[state] == Leaving::first ||
          ((*leaving_)[state] == Leaving::unknown && has(Mutation::cut_steps_are_not_possible))) {
        continue;
      }
      std::set<std::uint32_t> here;
      for (const StateEdge& edge : edges) {
        if (!edge.beside && (is_first || stays.contains(edge.name))) {
          here.insert(edge.name);
        }
      }
      is_first = false;
      stays = std::move(here);
      if (stays.empty()) {
        return true;
      }
    }
    for (const std::uint32_t state : members_) {
      for (const StateEdge& edge : graph_->of(state)) {
        if (edge.target != StateTable::kNone && is_inside(state, edge.target)) {
          stays.erase(edge.name);
        }
      }
    }
    return stays.empty();
  }

  [[nodiscard]] const std::vector<std::uint32_t>& members() const { return members_; }
  [[nodiscard]] bool has_cycle() const {
    return members_.size() > 1 || std::ranges::any_of(graph_->of(members_.front()), [&](const StateEdge& edge) {
             return edge.target == members_.front();
           });
  }
  [[nodiscard]] bool is_inside(std::uint32_t state, std::uint32_t target) const {
    return (*component_)[state] == (*component_)[target];
  }

 private:
  const Graph* graph_;
  const std::vector<std::uint32_t>* component_;
  const std::vector<Leaving>* leaving_;
  std::vector<std::uint32_t> members_;
};

// A closed way through the part that takes an edge of each name.
Endless way_through(const Graph& graph, const Part& part) {
  Endless endless;
  std::set<std::uint32_t> wanted;
  for (const std::uint32_t state : part.members()) {
    for (const StateEdge& edge : graph.of(state)) {
      if (!edge.beside && edge.target != StateTable::kNone && part.is_inside(state, edge.target)) {
        wanted.insert(edge.name);
      }
    }
  }
  const std::uint32_t start = *std::ranges::min_element(part.members());
  std::uint32_t at = start;
  // The nearest edge that `is_goal` accepts; adds the way to it.
  const auto go = [&](const auto& is_goal) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> from(graph.size(), {StateTable::kNone, 0});
    std::deque<std::uint32_t> queue{at};
    while (!queue.empty()) {
      const std::uint32_t state = queue.front();
      queue.pop_front();
      const std::span<const StateEdge> edges = graph.of(state);
      for (std::uint32_t i = 0; i < edges.size(); ++i) {
        const StateEdge& edge = edges[i];
        if (edge.beside || edge.target == StateTable::kNone || !part.is_inside(state, edge.target)) {
          continue;
        }
        if (is_goal(edge)) {
          std::vector<std::pair<std::uint32_t, std::uint32_t>> way{{state, i}};
          for (std::uint32_t back = state; back != at; back = from[back].first) {
            way.push_back(from[back]);
          }
          std::ranges::reverse(way);
          for (const auto& [visited, number] : way) {
            endless.cycle.push_back(visited);
            endless.cycle_edges.push_back(number);
            wanted.erase(graph.of(visited)[number].name);
          }
          at = edge.target;
          return;
        }
        if (edge.target != at && from[edge.target].first == StateTable::kNone) {
          from[edge.target] = {state, i};
          queue.push_back(edge.target);
        }
      }
    }
  };
  while (!wanted.empty()) {
    go([&](const StateEdge& edge) { return wanted.contains(edge.name); });
  }
  if (at != start) {
    go([&](const StateEdge& edge) { return edge.target == start; });
  }
  return endless;
}

}  // namespace

std::optional<Endless> find_endless(const std::vector<std::uint64_t>& edges_begin, const std::vector<StateEdge>& edges,
                                    const std::vector<Leaving>& leaving) {
  const Graph graph{&edges_begin, &edges};
  std::uint32_t count = 0;
  const std::vector<std::uint32_t> component = components_of(graph, count);
  std::vector<std::vector<std::uint32_t>> members(count);
  for (std::uint32_t state = 0; state < graph.size(); ++state) {
    members[component[state]].push_back(state);
  }
  std::optional<Endless> best;
  for (std::vector<std::uint32_t>& all : members) {
    Part part(graph, component, leaving, std::move(all));
    if (!part.has_cycle() || (!part.is_fair() && !has(Mutation::every_cycle_is_fair))) {
      continue;
    }
    Endless endless = way_through(graph, part);
    endless.is_deadlock = !part.leads_out();
    if (!best || endless.cycle.front() < best->cycle.front()) {
      best = std::move(endless);
    }
  }
  return best;
}

}  // namespace sidelatch::explore
