#include <sidelatch/fabric/model/machine.h>

#include <sidelatch/fabric/model/effects.h>
#include <sidelatch/fabric/model/pieces.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

namespace sidelatch::fabric::model {
namespace {

// InfiniBand's longest message; it also keeps piece numbers within 32 bits.
constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 31;

[[noreturn]] void no_such(const char* what, std::size_t number, std::size_t size) {
  throw std::out_of_range(fmt::format("memory model: there is no {} {}; {} were added", what, number, size));
}

template <class Parts>
auto& part(Parts& parts, std::uint16_t number, const char* what) {
  if (number >= parts.size()) {
    no_such(what, number, parts.size());
  }
  return parts[number];
}

template <class Part, class... Args>
auto add(std::vector<Part>& parts, const char* what, Args&&... args) {
  if (parts.size() > 0xffff) {
    throw std::length_error(fmt::format("memory model: more than 65536 {}s", what));
  }
  parts.push_back(Part{std::forward<Args>(args)...});
  return static_cast<std::uint16_t>(parts.size() - 1);
}

}  // namespace

Machine::Machine(const Rules& rules) : rules_(rules) { validate(rules); }

// ---- Parts.

NodeId Machine::add_node() { return {add(nodes_, "node")}; }

NicId Machine::add_nic(NodeId node) {
  part(nodes_, node.value, "node");
  const NicId id{add(nics_, "NIC")};
  nics_.back().node = node;
  return id;
}

void Machine::map(NodeId node, RemoteAddress base, std::span<std::byte> storage) {
  auto& ranges = part(nodes_, node.value, "node").ranges;
  for (const Range& range : ranges) {
    if (base.value < range.base.value + range.length && range.base.value < base.value + storage.size()) {
      throw std::invalid_argument(
          fmt::format("memory model: cannot map [{:#x}, {:#x}): [{:#x}, {:#x}) is mapped already", base.value,
                      base.value + storage.size(), range.base.value, range.base.value + range.length));
    }
  }
  ranges.push_back({base, storage.data(), storage.size()});
}

void Machine::unmap(NodeId node, RemoteAddress base) {
  std::erase_if(part(nodes_, node.value, "node").ranges, [&](const Range& range) { return range.base == base; });
}

ThreadId Machine::add_thread(NodeId node) {
  part(nodes_, node.value, "node");
  const ThreadId id{add(threads_, "thread")};
  threads_.back().node = node;
  return id;
}

ClientId Machine::add_client() { return {add(clients_, "client")}; }

ClientId Machine::add_client(ThreadId thread) {
  static_cast<void>(at(thread));
  const ClientId id = add_client();
  clients_.back().has_thread = true;
  clients_.back().thread = thread;
  return id;
}

QpId Machine::add_qp(ClientId client, NicId target) {
  static_cast<void>(at(client));
  part(nics_, target.value, "NIC");
  const QpId id{add(qps_, "queue pair")};
  qps_.back().client = client;
  qps_.back().nic = target;
  return id;
}

void Machine::reset() {
  for (Nic& nic : nics_) {
    nic.unplaced.clear();
    nic.locked.clear();
  }
  for (Thread& thread : threads_) {
    thread.stores.clear();
    thread.drained = 0;
  }
  for (Client& client : clients_) {
    client.crashed = false;
    client.outstanding = 0;
  }
  for (Qp& qp : qps_) {
    qp.wrs.clear();
    qp.receives.clear();
    qp.first_active = qp.completed = qp.sends = qp.received = 0;
    qp.revoked = false;
  }
  waits_.clear();
  bits_.clear();
  staging_.clear();
  clock_ = 0;
  unfinished_ = 0;
  buffered_ = 0;
}

void Machine::reset(const Rules& rules) {
  validate(rules);
  reset();
  rules_ = rules;
}

const Machine::Qp& Machine::at(QpId qp) const { return part(qps_, qp.value, "queue pair"); }
Machine::Qp& Machine::at(QpId qp) { return part(qps_, qp.value, "queue pair"); }
const Machine::Thread& Machine::at(ThreadId thread) const { return part(threads_, thread.value, "thread"); }
Machine::Thread& Machine::at(ThreadId thread) { return part(threads_, thread.value, "thread"); }
const Machine::Client& Machine::at(ClientId client) const { return part(clients_, client.value, "client"); }
Machine::Client& Machine::at(ClientId client) { return part(clients_, client.value, "client"); }

const Machine::Wr& Machine::at(WrId wr) const {
  const Qp& qp = at(wr.qp);
  if (wr.index >= qp.wrs.size()) {
    throw std::out_of_range(fmt::format("memory model: there is no work request {} on queue pair {}; {} were posted",
                                        wr.index, wr.qp.value, qp.wrs.size()));
  }
  return qp.wrs[wr.index];
}

std::byte* Machine::resolve(NodeId node, RemoteAddress address, std::uint64_t length) const {
  for (const Range& range : part(nodes_, node.value, "node").ranges) {
    if (address >= range.base && address - range.base <= range.length &&
        length <= range.length - (address - range.base)) {
      return range.data + (address - range.base);
    }
  }
  throw std::out_of_range(
      fmt::format("memory model: {} bytes at address {:#x} are not inside one mapped range of node {}", length,
                  address.value, node.value));
}

std::byte* Machine::resolve_word(NodeId node, RemoteAddress address) const {
  if (address.value % kWordBytes != 0) {
    throw std::invalid_argument(
        fmt::format("memory model: address {:#x} of an 8-byte word is not a multiple of 8", address.value));
  }
  return resolve(node, address, kWordBytes);
}

// ---- Posting.

// Finds every error of a request before any state changes.
void Machine::check(const Qp& qp, const WorkRequest& request) const {
  const Kind kind = kind_of(request.opcode);
  const NodeId node = nics_[qp.nic.value].node;
  if (at(qp.client).crashed) {
    throw std::logic_error(fmt::format("memory model: client {} has crashed and cannot post", qp.client.value));
  }
  if (request.opcode == Opcode::write_with_immediate) {
    throw std::invalid_argument("memory model: it has no WRITE with immediate; use a WRITE and a SEND");
  }
  if (kind == Kind::atomic) {
    static_cast<void>(resolve_word(node, request.remote));
    if (request.local.data != nullptr && request.local.length != kWordBytes) {
      throw std::invalid_argument(fmt::format(
          "memory model: the buffer for an atomic's old value has {} bytes; give 8, or none", request.local.length));
    }
    return;
  }
  const std::uint64_t length = request.local.length;
  if (length != 0 && request.local.data == nullptr) {
    throw std::invalid_argument(fmt::format("memory model: {} of {} bytes without a buffer", name(kind), length));
  }
  if (length > kMaxLength) {
    throw std::invalid_argument(
        fmt::format("memory model: {} of {} bytes; at most {} are allowed", name(kind), length, kMaxLength));
  }
  if (kind == Kind::send) {
    if (qp.sends < qp.receives.size() && qp.receives[qp.sends].buffer.length < length) {
      throw std::invalid_argument(fmt::format("memory model: SEND of {} bytes into a receive buffer of {} bytes",
                                              length, qp.receives[qp.sends].buffer.length));
    }
  } else if (length != 0) {
    static_cast<void>(resolve(node, request.remote, length));
  }
}

WrId Machine::post(QpId id, const WorkRequest& request) {
  Qp& qp = at(id);
  check(qp, request);
  const WrId wr_id{id, static_cast<std::uint32_t>(qp.wrs.size())};
  Wr& wr = qp.wrs.emplace_back();
  Client& client = at(qp.client);
  wr.request = request;
  wr.kind = kind_of(request.opcode);
  wr.posted_at = ++clock_;
  wr.send = qp.sends;
  if (wr.kind == Kind::send) {
    ++qp.sends;
  }
  if (client.has_thread) {
    wr.behind = static_cast<std::uint32_t>(at(client.thread).stores.size());
  }
  ++client.outstanding;
  ++unfinished_;
  if (qp.revoked) {
    wr.failed = wr.settled = true;
    return wr_id;
  }
  lay_out(qp, wr);
  note_waits(id, wr);
  return wr_id;
}

// Finds the memory of a request and reserves room for its bytes in flight and its marks.
void Machine::lay_out(Qp& qp, Wr& wr) {
  const WorkRequest& request = wr.request;
  if (wr.kind == Kind::atomic) {
    wr.target = resolve_word(nics_[qp.nic.value].node, request.remote);
    return;
  }
  const std::uint64_t length = request.local.length;
  const bool from_local = wr.kind != Kind::read;
  if (wr.kind == Kind::send) {
    wr.target = wr.send < qp.receives.size() ? qp.receives[wr.send].buffer.data : nullptr;
  } else if (length != 0) {
    wr.target = resolve(nics_[qp.nic.value].node, request.remote, length);
  }
  wr.staging = staging_.size();
  if (!rules_.one_step_requests) {
    const std::uint64_t start = wr.kind == Kind::send ? 0 : request.remote.value;
    wr.pieces = static_cast<std::uint32_t>(piece_count(start, length, rules_.atom));
    if (from_local && !request.inlined) {
      wr.lines = static_cast<std::uint32_t>(
          piece_count(reinterpret_cast<std::uintptr_t>(request.local.data), length, kLineBytes));
    }
    staging_.resize(staging_.size() + length);
    wr.bits = bits_.size();
    bits_.resize(bits_.size() + words(wr.lines) + words(wr.pieces), 0);
    wr.placed = wr.settled = length == 0;  // moves no bytes, so there is nothing to wait for
  }
  if (from_local && request.inlined && length != 0) {
    bind_inline(qp, wr);
  }
}

// The CPU copies an inline payload into the request, so it reads through the store buffer of its thread.
void Machine::bind_inline(const Qp& qp, const Wr& wr) {
  const LocalSpan& local = wr.request.local;
  staging_.resize(wr.staging + local.length);
  std::byte* const to = staging_.data() + wr.staging;
  std::memcpy(to, local.data, local.length);
  const Client& client = at(qp.client);
  if (!client.has_thread) {
    return;
  }
  const Thread& thread = at(client.thread);
  const std::less<const std::byte*> before;  // defined for unrelated pointers, unlike `<`
  for (std::size_t i = thread.drained; i < thread.stores.size(); ++i) {
    std::byte bytes[kWordBytes];
    store_word(bytes, thread.stores[i].value);
    for (std::size_t k = 0; k < kWordBytes; ++k) {
      const std::byte* const at_byte = thread.stores[i].word + k;
      if (!before(at_byte, local.data) && before(at_byte, local.data + local.length)) {
        to[at_byte - local.data] = bytes[k];
      }
    }
  }
}

// Applies rules 5 and 6 to the earlier requests of the queue pair, and rule 2 to other queue pairs. A condition that is
// already true needs no wait: it stays true.
void Machine::note_waits(QpId id, Wr& wr) {
  const Qp& qp = at(id);
  wr.waits_begin = static_cast<std::uint32_t>(waits_.size());
  for (std::uint32_t i = qp.first_active; i + 1 < qp.wrs.size(); ++i) {
    const Wr& earlier = qp.wrs[i];
    switch (order_between(rules_, earlier.kind, wr.kind, wr.request.fence)) {
      case Order::unordered:
        break;
      case Order::same_word:
        if (earlier.target != wr.target) {
          break;
        }
        [[fallthrough]];
      case Order::executed:
        if (!earlier.settled) {
          waits_.push_back({{id, i}, false, Rule::queue_order});
        }
        break;
      case Order::completed:
        if (!earlier.completed) {
          waits_.push_back({{id, i}, true, Rule::fence});
        }
        break;
    }
  }
  if (wr.kind == Kind::read || (wr.kind == Kind::atomic && rules_.atomics_see_writes)) {
    for (const WrId completed : nics_[qp.nic.value].unplaced) {
      if (completed.qp != id) {  // rule 5 covers the same queue pair
        waits_.push_back({completed, false, Rule::completed_writes_first});
      }
    }
  }
  wr.waits_end = static_cast<std::uint32_t>(waits_.size());
}

void Machine::post_receive(QpId id, const WorkRequest& request, std::optional<ThreadId> poster) {
  Qp& qp = at(id);
  const std::uint32_t behind = poster ? stores(*poster) : 0;
  if (request.opcode != Opcode::recv) {
    throw std::invalid_argument("memory model: post_receive takes a RECV; give other work requests to post");
  }
  const LocalSpan& buffer = request.local;
  if (buffer.data == nullptr && buffer.length != 0) {
    throw std::invalid_argument(fmt::format("memory model: RECV of {} bytes without a buffer", buffer.length));
  }
  const auto waiting = std::find_if(qp.wrs.begin(), qp.wrs.end(), [&](const Wr& wr) {
    return wr.kind == Kind::send && wr.send == qp.receives.size();
  });
  if (waiting != qp.wrs.end()) {
    if (waiting->request.local.length > buffer.length) {
      throw std::invalid_argument(fmt::format("memory model: SEND of {} bytes into a receive buffer of {} bytes",
                                              waiting->request.local.length, buffer.length));
    }
    waiting->target = buffer.data;
  }
  qp.receives.push_back({buffer, poster.value_or(ThreadId{}), behind});
}

// ---- CPU threads.

void Machine::cpu_store(ThreadId id, RemoteAddress address, std::uint64_t value) {
  Thread& thread = at(id);
  thread.stores.push_back({resolve_word(thread.node, address), address, value});
  ++buffered_;
}

std::uint64_t Machine::cpu_load(ThreadId id, RemoteAddress address) const {
  const Thread& thread = at(id);
  const std::byte* const word = resolve_word(thread.node, address);
  for (std::size_t i = thread.stores.size(); i-- > thread.drained;) {
    if (thread.stores[i].word == word) {
      return thread.stores[i].value;
    }
  }
  return load_word(word);
}

std::uint32_t Machine::stores(ThreadId id) const { return static_cast<std::uint32_t>(at(id).stores.size()); }

bool Machine::drained(ThreadId id) const {
  const Thread& thread = at(id);
  return thread.drained == thread.stores.size();
}

// ---- Crash and revocation.

void Machine::crash(ClientId client) { at(client).crashed = true; }

void Machine::revoke(QpId id) {
  Qp& qp = at(id);
  if (qp.revoked) {
    return;
  }
  qp.revoked = true;
  for (std::uint32_t i = qp.first_active; i < qp.wrs.size(); ++i) {
    Wr& wr = qp.wrs[i];
    wr.failed = !wr.completed;
    if (!wr.settled) {
      if (wr.loaded) {
        std::erase(nics_[qp.nic.value].locked, wr.target);  // its store will never come
      }
      settle(qp, wr, {id, i});
    }
  }
  for (std::uint32_t i = qp.first_active; i < qp.wrs.size(); ++i) {
    retire(qp, qp.wrs[i]);
  }
}

// ---- State.

const WorkRequest& Machine::request(WrId wr) const { return at(wr).request; }
bool Machine::completed(WrId wr) const { return at(wr).completed; }
bool Machine::failed(WrId wr) const { return at(wr).failed; }
bool Machine::placed(WrId wr) const { return at(wr).placed; }
bool Machine::received(WrId wr) const { return at(wr).received; }

std::uint64_t Machine::old_value(WrId id) const {
  const Wr& wr = at(id);
  if (wr.kind != Kind::atomic || !wr.completed || wr.failed) {
    throw std::logic_error(fmt::format("memory model: {} {} of queue pair {} has no old value: {}", name(wr.kind),
                                       id.index, id.qp.value,
                                       wr.kind != Kind::atomic ? "only atomics have one"
                                       : wr.failed             ? "its queue pair was revoked"
                                                               : "it has not completed"));
  }
  return wr.old;
}

std::uint64_t Machine::loaded_value(WrId id) const { return at(id).old; }

std::uint32_t Machine::posted(QpId qp) const { return static_cast<std::uint32_t>(at(qp).wrs.size()); }

std::uint32_t Machine::outstanding(QpId id) const {
  const Qp& qp = at(id);
  return static_cast<std::uint32_t>(qp.wrs.size()) - qp.completed;
}

std::uint32_t Machine::outstanding(ClientId client) const { return at(client).outstanding; }

bool Machine::idle(QpId id) const {
  const Qp& qp = at(id);
  return qp.first_active == qp.wrs.size();
}

std::uint32_t Machine::received_count(QpId qp) const { return at(qp).received; }
bool Machine::crashed(ClientId client) const { return at(client).crashed; }
bool Machine::quiescent() const { return unfinished_ == 0 && buffered_ == 0; }

}  // namespace sidelatch::fabric::model
