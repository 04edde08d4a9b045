#include "world.h"

#include <sidelatch/fabric/after.h>

#include "sim_queue_pair.h"

#include <algorithm>

namespace sidelatch::fabric::sim {

namespace {

// The agenda's payload: a request's address with the action in its low bits, or a timer with kTimerFlag.
constexpr std::uintptr_t kActionMask = 15;
constexpr std::uintptr_t kTimerFlag = 16;
constexpr unsigned kTimerShift = 5;
constexpr std::uint64_t kGenerationMask = (1U << 27) - 1;
static_assert(alignof(Request) >= 32 && sizeof(std::uintptr_t) == 8);

constexpr model::Kind kKinds[] = {model::Kind::write, model::Kind::read, model::Kind::atomic, model::Kind::send};

}  // namespace

SimReactor::SimReactor(World& world, std::uint32_t completion_queue_depth)
    : Reactor(completion_queue_depth), world_(&world) {}
SimReactor::~SimReactor() { destroy_spawned(); }
Time SimReactor::now() const { return world_->now; }
bool SimReactor::advance(std::optional<Time> limit) { return world_->advance(limit); }
std::uint64_t SimReactor::start_timer(Duration duration, Waiter& waiter) {
  return world_->start_timer(duration, waiter);
}
void SimReactor::cancel_timer(std::uint64_t timer) noexcept { world_->cancel_timer(timer); }

World::World(const SimulationOptions& simulation_options)
    : options(simulation_options),
      reactor(*this, simulation_options.completion_queue_depth),
      random_(simulation_options.seed) {
  options.profile.validate();
  model::validate(options.rules);
  for (const model::Kind first : kKinds) {
    for (const model::Kind second : kKinds) {
      for (const bool fence : {false, true}) {
        order_[static_cast<std::size_t>(first)][static_cast<std::size_t>(second)][fence ? 1 : 0] =
            model::order_between(options.rules, first, second, fence);
      }
    }
  }
  waits_for_ = kinds_waited_for();
}

std::array<std::array<unsigned, 2>, 4> World::kinds_waited_for() const {
  std::array<std::array<unsigned, 2>, 4> kinds{};
  for (const model::Kind second : kKinds) {
    for (const bool fence : {false, true}) {
      unsigned& bits = kinds.at(static_cast<std::size_t>(second)).at(fence ? 1 : 0);
      for (const model::Kind first : kKinds) {
        if (order(first, second, fence) == model::Order::executed) {
          bits |= 1U << static_cast<unsigned>(first);
        }
      }
    }
  }
  return kinds;
}

World::~World() { reactor.destroy_spawned(); }

bool World::advance(std::optional<Time> limit) {
  const Time until = limit.value_or(Time::max());
  while (!reactor.has_ready()) {
    // At the end of time is what waits without end.
    const bool more = agenda_.prepare() && agenda_.next_time() != Time::max();
    if (!more || agenda_.next_time() > until) [[unlikely]] {
      if (limit && *limit != Time::max()) {
        now = std::max(now, *limit);
      }
      return more;
    }
    const EventQueue::Event event = agenda_.pop();
    now = Time{event.time};
    ++events;
    if ((event.payload & kTimerFlag) != 0) {
      Timer& timer = timers_[(event.payload >> kTimerShift) & 0xffffffffU];
      const auto index = static_cast<std::uint32_t>(&timer - timers_.data());
      if (timer.waiter != nullptr) {
        reactor.ready(*timer.waiter);
      }
      timer.waiter = nullptr;
      timer.generation = (timer.generation + 1) & kGenerationMask;
      free_timers_.push_back(index);
      continue;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the action shares a word with the address, which keeps events small
    Request& request = *reinterpret_cast<Request*>(event.payload & ~kActionMask);
    switch (static_cast<Action>(event.payload & kActionMask)) {
      case Action::fetch:
        fetch(request);
        break;
      case Action::arrive:
        arrive(request);
        break;
      case Action::begin:
        begin(request);
        break;
      case Action::step:
        step(request);
        break;
      case Action::end:
        end(request);
        break;
      case Action::load:
        load(request);
        break;
      case Action::store:
        store(request);
        break;
      case Action::deliver:
        deliver(request);
        break;
      case Action::complete:
        complete(request);
        break;
      case Action::receive:
        receive(request);
        break;
      case Action::pass:
        pass(request);
        break;
      case Action::pass_back:
        pass_back(request);
        break;
    }
    release(request);
  }
  return true;
}

std::uint64_t World::start_timer(Duration duration, Waiter& waiter) {
  std::uint32_t index = 0;
  if (free_timers_.empty()) {
    index = static_cast<std::uint32_t>(timers_.size());
    timers_.emplace_back();
  } else {
    index = free_timers_.back();
    free_timers_.pop_back();
  }
  Timer& timer = timers_[index];
  timer.waiter = &waiter;
  const std::uint64_t id = std::uint64_t{timer.generation} << 32 | index;
  agenda_.push(after(now, duration), (id << kTimerShift) | kTimerFlag);
  return id + (std::uint64_t{1} << 60);  // never zero
}

void World::cancel_timer(std::uint64_t timer) noexcept {
  // A timer that has already fired has another generation now.
  Timer& entry = timers_[timer & 0xffffffffU];
  if (entry.generation == ((timer >> 32) & kGenerationMask)) {
    entry.waiter = nullptr;
  }
}

void World::tell_observer(SimStep::Kind kind, const Request& request, std::uint64_t piece) {
  observer->on_step({kind, now, request.queue_pair, request.sequence, piece, &request.wr, request.connection->number});
}

}  // namespace sidelatch::fabric::sim
