#include <sidelatch/sync/owed.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace sidelatch::sync {

using namespace fabric;

void report_lost_work(const LostWork& lost) {
  std::fputs(fmt::format("sidelatch: a session ended before its work: {} asynchronous unlatches with their updates may "
                         "be lost, and {} latches may stay held. Call close() before the session ends, and "
                         "reconnect() after a lost connection.\n",
                         lost.unlatches, lost.latches)
                 .c_str(),
             stderr);
}

void Unlatches::grow() {
  std::vector<Entry> larger(std::max<std::size_t>(8, 2 * ring_.size()));
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i) {
    larger[i] = ring_[(first_ + i) & mask_];
  }
  ring_ = std::move(larger);
  mask_ = ring_.size() - 1;
  first_ = 0;
  end_ = count;
}

OwedLatch::Write copy_of(const WorkRequest& write) {
  return {{write.remote, write.local.length, write.rkey}, {write.local.data, write.local.data + write.local.length}};
}

}  // namespace sidelatch::sync
