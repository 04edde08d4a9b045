#include "nic_operations.h"

#include <cstdlib>

namespace sidelatch::softnic::nic {

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

NicOperations::End::End(std::uint8_t id)
    : nic({.mac = {2, 0, 0, 0, 0, id}, .gids = {gid_of({10, 0, 0, id})}}, memory),
      domain(nic.make_domain()),
      completions(nic.make_completion_queue(64)),
      pair(nic.make_queue_pair(
          {.domain = domain, .send_completions = &completions, .receive_completions = &completions})),
      key(nic.register_memory(
          {bytes.data(), bytes.size(), reinterpret_cast<std::uintptr_t>(bytes.data()), domain, Rights::all})) {}

NicOperations::NicOperations() {
  connect(a_, b_);
  connect(b_, a_);
}

void NicOperations::connect(End& end, const End& other) {
  using A = Attributes;
  end.pair.modify({.state = QueuePairState::init, .rights = Rights::all},
                  A::state | A::p_key_index | A::port | A::rights);
  end.pair.modify(
      {.state = QueuePairState::rtr,
       .address = {.mac = other.nic.options().mac, .gid = other.nic.options().gids[0]},
       .path_mtu = PathMtu::b1024,
       .max_dest_rd_atomic = 1,
       .remote_qp = other.pair.number()},
      A::state | A::address | A::path_mtu | A::remote_qp | A::receive_psn | A::max_dest_rd_atomic | A::min_rnr_timer);
  end.pair.modify({.state = QueuePairState::rts, .timeout = 8, .retry_count = 7, .max_rd_atomic = 1},
                  A::state | A::timeout | A::retry_count | A::rnr_retry | A::send_psn | A::max_rd_atomic);
}

void NicOperations::run(int times) {
  for (int i = 0; i < times; ++i) {
    for (const WorkKind kind : {WorkKind::write, WorkKind::read, WorkKind::fetch_add, WorkKind::send}) {
      operate(kind, false);
    }
    operate(WorkKind::write, true);
  }
}

void NicOperations::operate(WorkKind kind, bool loses_first) {
  const std::uint32_t length = kind == WorkKind::fetch_add ? 8 : 3000;
  const Sge from{reinterpret_cast<std::uintptr_t>(a_.bytes.data()), length, a_.key};
  const Sge to{reinterpret_cast<std::uintptr_t>(b_.bytes.data()), length, b_.key};
  if (kind == WorkKind::send) {
    require(b_.pair.post_receive({.sges = {&to, 1}}) == Post::done);
  }
  require(a_.pair.post_send(
              {.kind = kind, .signaled = true, .sges = {&from, 1}, .remote_address = to.address, .rkey = b_.key}) ==
          Post::done);
  bool is_lost = loses_first;
  for (std::size_t polled = 0; polled == 0;) {
    now_ += 100'000;
    for (End* const end : {&a_, &b_}) {
      end->nic.advance(now_);
      while (const std::size_t bytes = end->nic.pull_frame(frame_, now_)) {
        if (!is_lost) {
          (end == &a_ ? b_ : a_).nic.on_frame({frame_.data(), bytes}, now_);
        }
        is_lost = false;
      }
    }
    std::array<Completion, 4> completions;
    polled = a_.completions.poll(completions);
    require(polled == 0 || completions[0].status == CompletionStatus::success);
    static_cast<void>(b_.completions.poll(completions));
  }
}

}  // namespace sidelatch::softnic::nic
