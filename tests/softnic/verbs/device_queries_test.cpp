// What libsidelatch-verbs says of its device: ibv_query_device(3).
#include "verbs_calls.h"

#include <gtest/gtest.h>

#include <unistd.h>

namespace sidelatch::softnic {
namespace {

TEST_F(VerbsCalls, TheDeviceSaysWhatProgramsInsistOn) {
  ibv_device_attr device{};
  ASSERT_EQ(verbs.query_device(context, &device), 0);
  // Tests of other devices take 0 for "nobody has set this".
  EXPECT_NE(device.vendor_id, 0U);
  EXPECT_NE(device.vendor_part_id, 0U);
  EXPECT_NE(device.node_guid, 0U);
  // "Memory page sizes supported" are a bit each; a region may consist of pages of any size.
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::uint64_t kHugePage = 2U << 20U;
  EXPECT_EQ(device.page_size_cap & (page | kHugePage), page | kHugePage);
  EXPECT_EQ(device.page_size_cap & (page - 1), 0U);
}

}  // namespace
}  // namespace sidelatch::softnic
