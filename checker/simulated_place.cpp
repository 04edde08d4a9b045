#include <sidelatch/checker/simulated_place.h>

#include <sidelatch/switchsync/sim/tuples_at_switch.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;
using sync::LatchPlace;

namespace {

constexpr std::uint64_t kMostLatches = 65'536;  // words of p4/switch_atomics.p4

// Fine enough that no two objects share a latch, if the switch has room for that.
std::uint64_t granule_for(const RemoteSpan& memory, std::uint64_t stride) {
  const std::uint64_t wanted = std::max<std::uint64_t>(8, std::bit_floor(stride));
  const std::uint64_t possible = std::bit_ceil((memory.length + kMostLatches - 1) / kMostLatches);
  if (possible > wanted) {
    throw std::invalid_argument("the switch has fewer words than there are objects: take fewer or larger objects");
  }
  return wanted;
}

}  // namespace

SimulatedPlace::SimulatedPlace(sim::Simulation& world, Node& storage, const SchemeEntry& entry)
    : world_(&world), storage_(&storage), place_(entry.place()) {
  if (place_ == LatchPlace::tuples_at_switch) {
    tuples_ = std::make_unique<switchsync::TuplesAtSwitch>(world, storage);
  }
}

SimulatedPlace::~SimulatedPlace() = default;

void SimulatedPlace::serve(const RemoteSpan& memory, const sync::ObjectArray& objects) {
  const sync::Layout& layout = objects.layout();
  memory_ = memory;
  offset_ = objects.at(0).record_address - memory.address;
  stride_ = layout.stride();
  if (tuples_ != nullptr) {
    tuples_->add(memory.subspan(offset_, layout.total_bytes()), layout.count(), layout.shape().bytes, stride_);
  }
  if (place_ == LatchPlace::words_at_switch) {
    granule_ = granule_for(memory, stride_);
    words_ = std::make_unique<switchsync::WordsAtSwitch>(*world_, *storage_, memory, granule_);
  }
}

sync::SessionOptions SimulatedPlace::options(Node& client, sync::SessionOptions options) {
  options.versions_at_switch = tuples_ != nullptr;
  if (words_ != nullptr) {
    latch_pairs_.push_back(words_->connect(client));
    options.latches = {.queue_pair = latch_pairs_.back().get(),
                       .words = words_->words(),
                       .first = memory_.address,
                       .granule = granule_};
  }
  return options;
}

bool SimulatedPlace::is_free(std::uint64_t i) const {
  if (tuples_ != nullptr) {
    const auto tuple = static_cast<std::uint32_t>(i);
    return tuples_->control().version(tuple) % 2 == 0 && !tuples_->control().holder(tuple);
  }
  if (words_ != nullptr) {
    return words_->word(memory_.address + offset_ + i * stride_) == 0;
  }
  throw std::logic_error("is_free: the memory node keeps the latches itself");
}

}  // namespace sidelatch::checker
