// The state of a machine as words that can be compared: equal words, equal futures.
#include <sidelatch/fabric/model/machine.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::fabric::model {

namespace {

void append_bytes(const std::byte* data, std::uint64_t length, std::vector<std::uint64_t>& out) {
  for (std::uint64_t i = 0; i < length; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i, std::min<std::uint64_t>(8, length - i));
    out.push_back(word);
  }
}

}  // namespace

std::uint32_t Machine::unfinished_before(WrId id) const {
  const Qp& qp = at(id.qp);
  std::uint32_t count = 0;
  for (std::uint32_t i = qp.first_active; i < id.index; ++i) {
    count += qp.wrs[i].finished ? 0U : 1U;
  }
  return count;
}

bool Machine::waits_for_word(QpId id, std::uint32_t index) const {
  const Qp& qp = at(id);
  const Wr& wr = qp.wrs[index];
  return wr.kind == Kind::atomic && !rules_.one_step_requests && rules_.atomic_scope == AtomicScope::nic &&
         !wr.loaded && !wr.placed && !touch_gate(qp, wr) && lock_gate(qp, wr).has_value();
}

// Times of posts and completions are no part of it: they decide dependence, not what may happen.
void Machine::append_state(std::span<const std::uint32_t> known,
                           const std::function<std::uint64_t(const std::byte*)>& place,
                           std::vector<std::uint64_t>& out) const {
  const auto first_of = [&](std::size_t qp) { return std::min(qps_[qp].first_active, known[qp]); };
  const auto name_of = [&](WrId id) { return std::uint64_t{id.qp.value} << 32 | (id.index - first_of(id.qp.value)); };
  for (std::size_t q = 0; q < qps_.size(); ++q) {
    const Qp& qp = qps_[q];
    out.push_back(std::uint64_t{qp.wrs.size() - first_of(q)} << 1 | (qp.revoked ? 1U : 0U));
    out.push_back(std::uint64_t{qp.sends - qp.received} << 32 | (qp.receives.size() - qp.received));
    for (std::size_t i = qp.received; i < qp.receives.size(); ++i) {
      const Receive& receive = qp.receives[i];
      const std::uint32_t undrained = undrained_before(receive);
      out.push_back(place(receive.buffer.data));
      out.push_back(receive.buffer.length);
      out.push_back(undrained == 0 ? 0 : std::uint64_t{receive.thread.value} << 32 | undrained);
    }
    for (std::size_t i = first_of(q); i < qp.wrs.size(); ++i) {
      append_request(qp, qp.wrs[i], place, out);
      if (!qp.wrs[i].finished) {
        const std::size_t count_at = out.size();
        out.push_back(0);
        for (std::uint32_t w = qp.wrs[i].waits_begin; w < qp.wrs[i].waits_end; ++w) {
          const Wait& wait = waits_[w];
          const Wr& other = qps_[wait.wr.qp.value].wrs[wait.wr.index];
          if (!(wait.for_completion ? other.completed : other.settled)) {
            out.push_back(name_of(wait.wr) << 1 | (wait.for_completion ? 1U : 0U));
            ++out[count_at];
          }
        }
      }
    }
  }
  for (const Nic& nic : nics_) {
    const std::size_t begin = out.size();
    for (const WrId id : nic.unplaced) {
      out.push_back(name_of(id));
    }
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
    out.push_back(nic.unplaced.size());
    const std::size_t locks = out.size();
    for (const std::byte* const word : nic.locked) {
      out.push_back(place(word));
    }
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(locks), out.end());
    out.push_back(nic.locked.size());
  }
  for (const Thread& thread : threads_) {
    for (std::size_t i = thread.drained; i < thread.stores.size(); ++i) {
      out.push_back(place(thread.stores[i].word));
      out.push_back(thread.stores[i].value);
    }
    out.push_back(thread.stores.size() - thread.drained);
  }
  for (const Client& client : clients_) {
    out.push_back(client.crashed ? 1 : 0);
  }
}

void Machine::append_request(const Qp& qp, const Wr& wr, const std::function<std::uint64_t(const std::byte*)>& place,
                             std::vector<std::uint64_t>& out) const {
  const WorkRequest& request = wr.request;
  std::uint64_t flags = static_cast<std::uint64_t>(request.opcode);
  for (const bool flag : {request.signaled, request.fence, request.inlined, wr.loaded, wr.placed, wr.settled,
                          wr.delivered, wr.completed, wr.failed, wr.received, wr.finished}) {
    flags = flags << 1 | (flag ? 1U : 0U);
  }
  out.push_back(flags << 32 | request.immediate);
  if (wr.kind == Kind::atomic) {
    out.push_back(wr.old);  // the client takes it when it is told of the completion
    out.push_back(wr.value);
  }
  if (wr.finished) {
    return;
  }
  out.push_back(request.remote.value);
  out.push_back(request.rkey.value);
  out.push_back(place(request.local.data));
  out.push_back(request.local.length);
  out.push_back(request.compare);
  out.push_back(request.swap_or_add);
  out.push_back(place(wr.target));
  if (wr.behind != 0) {
    const std::uint32_t drained = threads_[clients_[qp.client.value].thread.value].drained;
    out.push_back(wr.behind > drained ? wr.behind - drained : 0);
  }
  if (wr.kind != Kind::atomic) {
    const std::size_t sets = words(wr.lines) + words(wr.pieces);
    for (std::size_t i = 0; i < sets; ++i) {
      out.push_back(bits_[wr.bits + i]);
    }
    const bool holds_bytes = wr.kind == Kind::read ? wr.done != 0 && !wr.delivered : !wr.settled;
    const bool staged = !rules_.one_step_requests || request.inlined;
    if (holds_bytes && staged) {
      append_bytes(staging_.data() + wr.staging, request.local.length, out);
    }
  }
}

}  // namespace sidelatch::fabric::model
