// Operations through VerbsFabric on a stub device, so that all cost is the library's own.
#pragma once

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <memory>

namespace sidelatch::fabric::verbs {

class Operations {
 public:
  void run_reads(int times) { fabric_.reactor().run(reads(times)); }
  void run_writes(int times) { fabric_.reactor().run(writes(times)); }
  void run_atomics(int times) { fabric_.reactor().run(atomics(times)); }
  void run_chains(int times) { fabric_.reactor().run(chains(times)); }

 private:
  Task<void> reads(int times) {
    const LocalSpan into = buffer_.local(64, 8);
    const RemoteSpan from = table_.remote(64, 8);
    for (int i = 0; i < times; ++i) {
      co_await qp_->read(into, from);
    }
  }
  Task<void> writes(int times) {
    const LocalSpan from = buffer_.local(64, 8);
    const RemoteSpan to = table_.remote(64, 8);
    for (int i = 0; i < times; ++i) {
      co_await qp_->write(from, to);
    }
  }
  Task<void> atomics(int times) {
    const RemoteSpan word = table_.remote(0, 8);
    for (int i = 0; i < times; ++i) {
      co_await qp_->fetch_add(word, 1);
    }
  }
  // An exclusive cycle in one chain.
  Task<void> chains(int times) {
    const WorkRequest latch = compare_swap(table_.remote(0, 8), 0, 1);
    const WorkRequest copy = read(buffer_.local(64, 8), table_.remote(64, 8));
    const WorkRequest update = write(buffer_.local(128, 8), table_.remote(128, 8));
    const WorkRequest unlatch = fetch_add(table_.remote(0, 8), ~std::uint64_t{0});
    for (int i = 0; i < times; ++i) {
      co_await qp_->submit(latch, copy, update, unlatch);
    }
  }

  VerbsFabric fabric_;
  Node& storage_ = fabric_.add_node("storage");
  Node& client_ = fabric_.add_node("client");
  MemoryRegion table_ = storage_.allocate(4096, Access::remote_all);
  MemoryRegion buffer_ = client_.allocate(4096, Access::local_write);
  std::unique_ptr<QueuePair> qp_ = client_.connect(storage_);
};

}  // namespace sidelatch::fabric::verbs
