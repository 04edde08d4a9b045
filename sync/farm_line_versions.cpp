#include <sidelatch/sync/farm_line_versions.h>

#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/line_versions.h>

namespace sidelatch::sync {

using namespace fabric;

FarmLineVersions::FarmLineVersions(WriterUnlatch unlatch, LineVersion width, Duration longest_read)
    : OptimisticScheme(width == LineVersion::bits64 ? "optimistic/farm" : "optimistic/farm+v16", unlatch),
      width_(width),
      longest_read_(longest_read) {}

void FarmLineVersions::encode(const ObjectBuffer& buffer, std::uint64_t version) const {
  kernels::scatter_lines(buffer.record().bytes(), buffer.shape(), version, buffer.payload());
}

// Called under the latch: these bytes are the object, whatever the versions say.
void FarmLineVersions::decode(const ObjectBuffer& buffer) const {
  (void)kernels::gather_lines(buffer.record().bytes(), buffer.shape(), 0, buffer.payload());
}

std::uint64_t FarmLineVersions::highest_version(const ObjectBuffer& buffer, std::uint64_t header) const {
  return kernels::highest_version(buffer.record().bytes(), buffer.shape(), header);
}

Task<OptimisticScheme::Attempt> FarmLineVersions::try_read(Session& session, Object object,
                                                           const ObjectBuffer& buffer) const {
  const Time begun = session.lease_clock();
  co_await session.qp().read(buffer.record(), object.record());
  const bool in_time = width_ == LineVersion::bits64 || session.lease_clock() - begun <= longest_read_;
  const ObjectHeader header = header_in_record(buffer);
  if (header.latch != kFree || !in_time) {
    co_return Attempt{false, header};
  }
  co_await session.spend(CpuWork::line_versions, object.shape->bytes);
  const bool equal = kernels::gather_lines(buffer.record().bytes(), *object.shape, header.version, buffer.payload());
  co_return Attempt{equal, header};
}

}  // namespace sidelatch::sync
