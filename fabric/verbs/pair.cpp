// The ends of a pair: receives, and how one end's failure reaches the other.
//
// An end that ends, for whatever reason, tells the NIC of the other end to give up (state ERROR). The NIC then
// completes what the other end has posted, in order: messages that have arrived as messages, the rest as flushed. So
// nothing that has arrived is lost, and nobody waits for time-outs.
#include "pair.h"

#include "node.h"
#include "queue_pair.h"

#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

#include <endian.h>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace sidelatch::fabric::verbs {

void VerbsQueuePair::join(VerbsQueuePair& here, VerbsQueuePair& there) {
  const Address at_here = here.port_->address_of(*here.raw_, random_packet_number());
  const Address at_there = there.port_->address_of(*there.raw_, random_packet_number());
  const auto connect = [](VerbsQueuePair& end, const Address& own, const Address& other) {
    end.limit_rd_atomic(end.port_->connect(*end.raw_, own, other, end.options().max_rd_atomic));
  };
  connect(there, at_there, at_here);  // ready to receive before the other end can send
  connect(here, at_here, at_there);
}

void VerbsQueuePair::receive_posted(const LocalSpan& into) {
  ibv_sge buffer{};
  if (into.length != 0) {
    buffer.addr = reinterpret_cast<std::uintptr_t>(into.data);
    buffer.length = static_cast<std::uint32_t>(into.length);
    buffer.lkey = node().find(into.lkey)->nic_lkey;
  }
  ibv_recv_wr request{};
  request.wr_id = mark_ | (++receives_posted_ & 0xffff'ffff);
  request.sg_list = &buffer;
  request.num_sge = into.length == 0 ? 0 : 1;
  ibv_recv_wr* refused = nullptr;
  if (const int error = ibv_post_recv(raw_.get(), &request, &refused); error != 0) {
    on_ended(std::make_shared<const FabricError>(
        Status::local_operation, recv(into),
        fmt::format("the driver of {} does not take it: {}", port_->device_name(), std::strerror(error))));
  }
}

void VerbsQueuePair::on_receive(const ibv_wc& completion) {
  if ((completion.wr_id ^ mark_) >> 32 != 0) {
    return;  // of a connection that has ended
  }
  if (completion.status == IBV_WC_SUCCESS) {
    ReceiveQueue::Arrival arrival{.bytes = completion.byte_len,
                                  .is_write = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM};
    if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
      arrival.immediate = be32toh(completion.imm_data);
    }
    static_cast<void>(receives()->take_buffer());
    receives()->fill(arrival);
    end_unused_regions();
  } else if (ends_) {
    return;  // the cause is known
  } else if (completion.status == IBV_WC_WR_FLUSH_ERR) {
    if (other_ended_) {
      close_receives();
    } else {
      reactor_->look_for_cause_later(*this);
    }
  } else {
    // The sender hears of it from its own NIC, so it is left to that.
    pair_->ended = true;
    on_ended(std::make_shared<const FabricError>(
        Status::local_operation, recv(receives()->oldest_unfilled()),
        fmt::format("{}: {} (vendor error {:#x}); a SEND longer than its receive buffer ends the connection: post "
                    "longer buffers, or send less",
                    port_->device_name(), ibv_wc_status_str(completion.status), completion.vendor_err)));
  }
}

void VerbsQueuePair::close_flushed_receives() {
  if (ends_) {
    return;  // a request of this end has failed: that is the cause
  }
  // Either the other end has ended, or the NIC has refused a request of it, which ends it, too.
  other_ended_ = true;
  close_receives();
}

bool VerbsQueuePair::may_wait_for_receiver() const noexcept {
  constexpr std::uint8_t kForEver = 7;
  return pair_ != nullptr && port_->connections().rnr_retry == kForEver;
}

void VerbsQueuePair::end_other() noexcept {
  if (pair_ != nullptr && !std::exchange(pair_->ended, true) && pair_->ends[1 - side_] != nullptr) {
    pair_->ends[1 - side_]->on_other_ended();
  }
}

void VerbsQueuePair::on_other_ended() noexcept {
  if (state() == State::error || other_ended_) {
    return;
  }
  other_ended_ = true;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  const bool flushes = raw_ != nullptr && ibv_modify_qp(raw_.get(), &attributes, IBV_QP_STATE) == 0;
  if (!flushes || receives()->unfilled() == 0) {
    close_receives();
  }
}

void VerbsQueuePair::close_receives() noexcept {
  receives()->close(std::make_shared<const FabricError>(Status::disconnected, kOtherEnded));
  end_unused_regions();
}

void VerbsQueuePair::end_by_node() {
  on_ended(std::make_shared<const FabricError>(Status::disconnected, "this node has ended the connection"));
}

Address PairPeer::accept(const Address& /*initiator*/) {
  throw std::logic_error("the ends of a pair are connected by join()");
}

void PairPeer::revoke() {
  if (VerbsQueuePair* const end = pair_->ends[other_]) {
    end->end_by_node();
  }
}

}  // namespace sidelatch::fabric::verbs
