#include "graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace sidelatch::explore::oracle {

namespace {

struct Edge {
  std::uint32_t to;
  Unit unit;
};
using Graph = std::vector<std::vector<Edge>>;

// Strongly connected components of the part of a graph that `part` marks with `number`. Tarjan, without recursion.
std::vector<std::vector<std::uint32_t>> components(const Graph& graph, const std::vector<std::uint32_t>& nodes,
                                                   const std::vector<std::uint32_t>& part, std::uint32_t number) {
  std::unordered_map<std::uint32_t, std::uint32_t> index;
  std::unordered_map<std::uint32_t, std::uint32_t> low;
  std::unordered_set<std::uint32_t> on_stack;
  std::vector<std::uint32_t> stack;
  std::vector<std::vector<std::uint32_t>> found;
  std::vector<std::pair<std::uint32_t, std::size_t>> path;
  for (const std::uint32_t root : nodes) {
    if (index.contains(root)) {
      continue;
    }
    path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == 0) {
        index[node] = low[node] = static_cast<std::uint32_t>(index.size());
        stack.push_back(node);
        on_stack.insert(node);
      }
      bool down = false;
      while (next < graph[node].size()) {
        const std::uint32_t to = graph[node][next++].to;
        if (part[to] != number) {
          continue;
        }
        if (!index.contains(to)) {
          path.emplace_back(to, 0);
          down = true;
          break;
        }
        if (on_stack.contains(to)) {
          low[node] = std::min(low[node], index[to]);
        }
      }
      if (down) {
        continue;
      }
      const std::uint32_t done = path.back().first;
      path.pop_back();
      if (!path.empty()) {
        low[path.back().first] = std::min(low[path.back().first], low[done]);
      }
      if (low[done] == index[done]) {
        std::vector<std::uint32_t>& component = found.emplace_back();
        for (std::uint32_t node_of = ~0U; node_of != done;) {
          node_of = stack.back();
          stack.pop_back();
          on_stack.erase(node_of);
          component.push_back(node_of);
        }
      }
    }
  }
  return found;
}

// Whether a run may stay in these states for ever so that who can take a step again and again takes one again and again
// (strong fairness). States in which somebody could take a step who takes none here are left out, until none is.
bool has_fair_run(const Graph& graph, std::vector<std::uint32_t> nodes, std::vector<std::uint32_t>& part,
                  std::uint32_t& numbers) {
  std::vector<std::vector<std::uint32_t>> left = {std::move(nodes)};
  while (!left.empty()) {
    const std::vector<std::uint32_t> piece = std::move(left.back());
    left.pop_back();
    const std::uint32_t number = ++numbers;
    for (const std::uint32_t node : piece) {
      part[node] = number;
    }
    for (const std::vector<std::uint32_t>& component : components(graph, piece, part, number)) {
      const std::uint32_t own = ++numbers;
      for (const std::uint32_t node : component) {
        part[node] = own;
      }
      std::unordered_set<Unit> taken;
      for (const std::uint32_t node : component) {
        for (const Edge& edge : graph[node]) {
          if (part[edge.to] == own) {
            taken.insert(edge.unit);
          }
        }
      }
      if (taken.empty()) {
        continue;
      }
      std::vector<std::uint32_t> fair;
      for (const std::uint32_t node : component) {
        const bool all = std::ranges::all_of(
            graph[node], [&](const Edge& edge) { return edge.unit == kCrash || taken.contains(edge.unit); });
        if (all) {
          fair.push_back(node);
        }
      }
      if (fair.size() == component.size()) {
        return true;
      }
      for (const std::uint32_t node : component) {
        part[node] = 0;
      }
      if (!fair.empty()) {
        left.push_back(std::move(fair));
      }
    }
  }
  return false;
}

}  // namespace

End end_of(const ProgramList& program, const State& state) {
  End end(state.memory.begin(), state.memory.begin() + program.words);
  end.push_back(state.object);
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    const Flow& flow = program.flows[i];
    if (state.crashed && flow.sort == Flow::Sort::client && flow.client == 0) {
      continue;
    }
    const FlowState& own = state.flows[i];
    end.push_back(static_cast<std::uint64_t>(own.status));
    end.insert(end.end(), own.registers.begin(), own.registers.end());
    if (flow.sort == Flow::Sort::client) {
      end.insert(end.end(), own.slots.begin(), own.slots.end());
    }
  }
  return end;
}

Answer explore_all(const ProgramList& program, const fabric::model::Rules& rules, std::size_t most) {
  const Machine machine(program, rules);
  Answer answer;
  std::unordered_map<std::string, std::uint32_t> known;
  std::vector<State> states = {machine.first()};
  Graph graph;
  known.emplace(Machine::key(states.front()), 0);
  std::vector<Next> next;
  std::vector<std::uint32_t> judged;
  for (std::size_t i = 0; i < states.size(); ++i) {
    machine.next(states[i], next);
    const bool is_last = std::ranges::all_of(next, [](const Next& one) { return one.unit == kCrash; });
    const bool ended = machine.has_ended(states[i]);
    const bool is_late = states[i].expired != 0 && !states[i].crashed;
    if (is_last && ended && !is_late) {
      answer.ends.insert(end_of(program, states[i]));
    } else if (is_last && !ended && machine.judges_liveness(states[i])) {
      answer.is_stuck = true;
    }
    if (machine.judges_liveness(states[i]) && !machine.time_ends_it(states[i])) {
      judged.push_back(static_cast<std::uint32_t>(i));
    }
    std::vector<Edge>& edges = graph.emplace_back();
    for (Next& one : next) {
      if (one.fault != Fault::none) {
        const bool fails = one.fault == Fault::assertion;
        (is_late ? (fails ? answer.fails_late : answer.races_late) : (fails ? answer.fails : answer.races)) = true;
        continue;
      }
      if (one.state.requests.size() > 31) {
        return answer;
      }
      const auto [place, is_new] = known.emplace(Machine::key(one.state), static_cast<std::uint32_t>(states.size()));
      if (is_new) {
        if (states.size() == most) {
          return answer;
        }
        states.push_back(std::move(one.state));
      }
      edges.push_back({place->second, one.unit});
    }
    states[i] = State{};  // it is no longer needed
  }
  answer.is_complete = true;
  answer.states = states.size();
  if (!answer.is_stuck) {
    std::vector<std::uint32_t> part(graph.size(), 0);
    std::uint32_t numbers = 0;
    answer.is_stuck = has_fair_run(graph, judged, part, numbers);
  }
  return answer;
}

}  // namespace sidelatch::explore::oracle
