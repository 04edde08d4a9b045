#include "enumerate.h"

#include <sidelatch/fabric/model/effects.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace sidelatch::fabric::model::enumeration {

// ---- Actors.

Op& Actor::push(OpKind kind) {
  Op& op = ops_.emplace_back();
  op.kind = kind;
  op.guards = guards_;
  op.awaited = awaited_;
  op.joined = kind == OpKind::post && guards_.empty() && ops_.size() > 1 && ops_[ops_.size() - 2].kind == OpKind::post;
  guards_.clear();
  return op;
}

Actor& Actor::post(const WorkRequest& request) {
  Op& op = push(OpKind::post);
  op.qp = qps_.at(qp_);
  op.request = request;
  ++program_->posted_.at(op.qp.value);
  return *this;
}

Actor& Actor::write(RemoteAddress to, std::uint64_t value, std::size_t words) {
  return write_from(program_->buffer(value, words), to, words).inlined();
}

Actor& Actor::write_from(std::byte* buffer, RemoteAddress to, std::size_t words) {
  WorkRequest request;
  request.opcode = Opcode::write;
  request.local = {buffer, 8 * words, {}};
  request.remote = to;
  return post(request);
}

Actor& Actor::read(RemoteAddress from, const std::vector<std::size_t>& words) {
  const std::size_t count = *std::max_element(words.begin(), words.end()) + 1;
  WorkRequest request;
  request.opcode = Opcode::read;
  request.local = {program_->buffer(kUnset, count), 8 * count, {}};
  request.remote = from;
  for (const std::size_t word : words) {
    program_->cells_.push_back({request.local.data + 8 * word, {}});
  }
  return post(request);
}

Actor& Actor::read_into(std::byte* buffer, RemoteAddress from) {
  WorkRequest request;
  request.opcode = Opcode::read;
  request.local = {buffer, 8, {}};
  request.remote = from;
  return post(request);
}

Actor& Actor::cas(RemoteAddress word, std::uint64_t expected, std::uint64_t desired) {
  WorkRequest request;
  request.opcode = Opcode::compare_swap;
  request.remote = word;
  request.compare = expected;
  request.swap_or_add = desired;
  const QpId qp = qps_.at(qp_);
  program_->cells_.push_back({nullptr, {qp, program_->posted_.at(qp.value)}});
  return post(request);
}

Actor& Actor::faa(RemoteAddress word, std::uint64_t addend) {
  cas(word, 0, addend);
  ops_.back().request.opcode = Opcode::fetch_add;
  return *this;
}

Actor& Actor::send(std::uint64_t value, std::size_t words) {
  WorkRequest request;
  request.opcode = Opcode::send;
  request.inlined = true;
  request.local = {program_->buffer(value, words), 8 * words, {}};
  return post(request);
}

Actor& Actor::fenced() {
  ops_.back().request.fence = true;
  return *this;
}

Actor& Actor::inlined() {
  ops_.back().request.inlined = true;
  return *this;
}

Actor& Actor::apart() {
  ops_.back().joined = false;
  return *this;
}

Actor& Actor::on(std::size_t qp) {
  qp_ = qp;
  return *this;
}

Actor& Actor::receive(const Actor& sender, std::byte* buffer, std::size_t words) {
  Op& op = push(OpKind::post_receive);
  op.qp = sender.qps_.at(0);
  op.request.opcode = Opcode::recv;
  op.request.local = {buffer, 8 * words, {}};
  return *this;
}

Actor& Actor::await_received(const Actor& sender) {
  guards_.push_back(Guard::received);
  awaited_ = sender.qps_.at(0).value;
  return *this;
}

Actor& Actor::local_store(std::byte* word, std::uint64_t value) {
  Op& op = push(OpKind::local_store);
  op.local = word;
  op.value = value;
  return *this;
}

Actor& Actor::store(RemoteAddress word, std::uint64_t value) {
  Op& op = push(OpKind::cpu_store);
  op.address = word;
  op.value = value;
  return *this;
}

Actor& Actor::load(RemoteAddress word) {
  Op& op = push(OpKind::cpu_load);
  op.address = word;
  op.local = program_->buffer(kUnset);
  program_->cells_.push_back({op.local, {}});
  return *this;
}

Actor& Actor::wait() {
  guards_.push_back(Guard::completed);
  return *this;
}

Actor& Actor::mfence() {
  guards_.push_back(Guard::drained);
  return *this;
}

Actor& Actor::signal() {
  push(OpKind::signal);
  return *this;
}

Actor& Actor::await(const Actor& other) {
  guards_.push_back(Guard::signalled);
  awaited_ = other.number_;
  return *this;
}

Actor& Actor::revoke(const Actor& other) {
  for (const QpId qp : other.qps_) {
    push(OpKind::revoke).qp = qp;
  }
  return *this;
}

Actor& Actor::may_crash() {
  may_crash_ = true;
  return *this;
}

// ---- Programs.

Program::Program() : machine_(Rules{}), node_(machine_.add_node()), memory_(kLines), initial_memory_(kLines) {
  nics_ = {machine_.add_nic(node_), machine_.add_nic(node_)};
  machine_.map(node_, line(0), std::as_writable_bytes(std::span(memory_)));
}

std::byte* Program::bytes(RemoteAddress address) {
  return reinterpret_cast<std::byte*>(memory_.data()) + (address - line(0));
}

void Program::set(RemoteAddress word, std::uint64_t initial) {
  store_word(reinterpret_cast<std::byte*>(initial_memory_.data()) + (word - line(0)), initial);
}

std::byte* Program::buffer(std::uint64_t initial, std::size_t words) {
  auto& lines = initial_buffers_.emplace_back((words + 7) / 8);
  for (std::size_t i = 0; i < words; ++i) {
    store_word(reinterpret_cast<std::byte*>(lines.data()) + 8 * i, initial);
  }
  return reinterpret_cast<std::byte*>(buffers_.emplace_back(lines).data());
}

Actor& Program::add_actor() {
  Actor& actor = actors_.emplace_back();
  actor.program_ = this;
  actor.number_ = actors_.size() - 1;
  return actor;
}

Actor& Program::client(const std::vector<std::size_t>& nics) {
  Actor& actor = add_actor();
  actor.has_client_ = true;
  actor.client_ = machine_.add_client();
  for (const std::size_t nic : nics) {
    actor.qps_.push_back(machine_.add_qp(actor.client_, nics_.at(nic)));
    posted_.push_back(0);
  }
  return actor;
}

Actor& Program::cpu() {
  Actor& actor = add_actor();
  actor.has_thread_ = true;
  actor.thread_ = machine_.add_thread(node_);
  return actor;
}

Actor& Program::cpu_client() {
  Actor& actor = cpu();
  actor.has_client_ = true;
  actor.client_ = machine_.add_client(actor.thread_);
  actor.qps_.push_back(machine_.add_qp(actor.client_, nics_.at(0)));
  posted_.push_back(0);
  return actor;
}

void Program::observe(RemoteAddress word) { cells_.push_back({bytes(word), {}}); }

// ---- Worlds.

World::World(Program& program, const Rules& rules) : p_(program), rules_(rules) { restart(); }

void World::restart() {
  p_.machine_.reset(rules_);
  std::copy(p_.initial_memory_.begin(), p_.initial_memory_.end(), p_.memory_.begin());
  for (std::size_t i = 0; i < p_.buffers_.size(); ++i) {
    std::copy(p_.initial_buffers_[i].begin(), p_.initial_buffers_[i].end(), p_.buffers_[i].begin());
  }
  next_op_.assign(p_.actors_.size(), 0);
  crashed_.assign(p_.actors_.size(), false);
  signalled_.assign(p_.actors_.size(), false);
}

bool World::passes(const Actor& actor, const Op& op) const {
  return std::all_of(op.guards.begin(), op.guards.end(), [&](Guard guard) {
    switch (guard) {
      case Guard::completed:
        return p_.machine_.outstanding(actor.client_) == 0;
      case Guard::drained:
        return p_.machine_.drained(actor.thread_);
      case Guard::signalled:
        return static_cast<bool>(signalled_[op.awaited]);
      case Guard::received:
        return p_.machine_.received_count({static_cast<std::uint16_t>(op.awaited)}) > 0;
      case Guard::none:
        break;
    }
    return true;
  });
}

bool World::possible(const Choice& choice) const {
  if (choice.kind == Choice::Kind::micro_step) {
    return p_.machine_.is_enabled(choice.step);
  }
  const Actor& actor = p_.actors_[choice.actor];
  const std::size_t next = next_op_[choice.actor];
  return next == choice.op && next < actor.ops_.size() && !crashed_[choice.actor] &&
         (choice.kind == Choice::Kind::crash || passes(actor, actor.ops_[next]));
}

void World::choices(std::vector<Choice>& out) {
  out.clear();
  for (std::size_t a = 0; a < p_.actors_.size(); ++a) {
    const Choice step{Choice::Kind::actor_step, {}, a, next_op_[a]};
    if (possible(step)) {
      out.push_back(step);
    }
    const Choice crash{Choice::Kind::crash, {}, a, next_op_[a]};
    if (p_.actors_[a].may_crash_ && possible(crash)) {
      out.push_back(crash);
    }
  }
  p_.machine_.enabled(steps_);
  for (const Step& step : steps_) {
    out.push_back({Choice::Kind::micro_step, step, 0, 0});
  }
}

std::size_t World::batch_end(const Choice& actor_step) const {
  const auto& ops = p_.actors_[actor_step.actor].ops_;
  std::size_t end = actor_step.op + 1;
  while (end < ops.size() && ops[end].joined) {
    ++end;
  }
  return end;
}

void World::take(const Choice& choice) {
  if (choice.kind == Choice::Kind::micro_step) {
    p_.machine_.apply(choice.step);
    return;
  }
  const Actor& actor = p_.actors_[choice.actor];
  if (choice.kind == Choice::Kind::crash) {
    crashed_[choice.actor] = true;
    p_.machine_.crash(actor.client_);
    return;
  }
  const std::size_t end = batch_end(choice);
  for (std::size_t i = choice.op; i < end; ++i) {
    const Op& op = actor.ops_[i];
    switch (op.kind) {
      case OpKind::post:
        static_cast<void>(p_.machine_.post(op.qp, op.request));
        break;
      case OpKind::post_receive:
        p_.machine_.post_receive(op.qp, op.request, actor.has_thread_ ? std::optional(actor.thread_) : std::nullopt);
        break;
      case OpKind::local_store:
        store_word(op.local, op.value);
        break;
      case OpKind::cpu_store:
        p_.machine_.cpu_store(actor.thread_, op.address, op.value);
        break;
      case OpKind::cpu_load:
        store_word(op.local, p_.machine_.cpu_load(actor.thread_, op.address));
        break;
      case OpKind::signal:
        signalled_[choice.actor] = true;
        break;
      case OpKind::revoke:
        p_.machine_.revoke(op.qp);
        break;
    }
  }
  next_op_[choice.actor] = end;
}

Outcome World::outcome() const {
  bool ended = p_.machine_.quiescent();
  for (std::size_t a = 0; a < p_.actors_.size(); ++a) {
    ended = ended && (crashed_[a] || next_op_[a] == p_.actors_[a].ops_.size());
  }
  if (!ended) {
    return kDeadlock;
  }
  Outcome result;
  for (const Program::Cell& cell : p_.cells_) {
    if (cell.word != nullptr) {
      result.push_back(load_word(cell.word));
    } else {
      const bool posted = cell.wr.index < p_.machine_.posted(cell.wr.qp);
      result.push_back(posted && !p_.machine_.failed(cell.wr) ? p_.machine_.old_value(cell.wr) : kUnset);
    }
  }
  return result;
}

// ---- The search.

Outcomes outcomes(Program& program, const Rules& rules) {
  struct Node {
    std::vector<Choice> choices;
    std::size_t next = 0;
  };
  constexpr std::uint64_t kTooMany = 2'000'000;
  Outcomes found;
  std::vector<Node> stack;
  World world(program, rules);
  std::uint64_t count = 0;
  do {
    world.restart();
    for (const Node& node : stack) {
      world.take(node.choices[node.next]);
    }
    for (Node node;; node = {}) {
      world.choices(node.choices);
      if (node.choices.empty()) {
        break;
      }
      world.take(node.choices[node.next]);
      stack.push_back(std::move(node));
    }
    found.insert(world.outcome());
    if (++count > kTooMany) {
      throw std::runtime_error("too many executions to enumerate; make the program smaller");
    }
    while (!stack.empty() && ++stack.back().next == stack.back().choices.size()) {
      stack.pop_back();
    }
  } while (!stack.empty());
  return found;
}

}  // namespace sidelatch::fabric::model::enumeration
