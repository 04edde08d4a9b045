#include <sidelatch/checker/remote_place.h>

namespace sidelatch::checker {

void RemotePlace::serve(const fabric::RemoteSpan& memory, const sync::ObjectArray& objects) {
  const sync::Layout& layout = objects.layout();
  const std::uint64_t offset = objects.at(0).record_address - memory.address;
  storage_->keep_versions(memory.subspan(offset, layout.total_bytes()), layout.count(), layout.shape().bytes,
                          layout.stride());
}

sync::SessionOptions RemotePlace::options(fabric::Node& /*client*/, sync::SessionOptions options) {
  options.versions_at_switch = true;
  return options;
}

}  // namespace sidelatch::checker
