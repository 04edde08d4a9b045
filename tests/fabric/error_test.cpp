// The message of a FabricError.
#include <sidelatch/fabric/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace sidelatch::fabric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Status kAll[] = {Status::invalid_request,
                           Status::local_operation,
                           Status::local_protection,
                           Status::remote_access,
                           Status::remote_invalid_request,
                           Status::retry_exceeded,
                           Status::rnr_retry_exceeded,
                           Status::flushed,
                           Status::disconnected,
                           Status::device_failure,
                           Status::busy,
                           Status::stuck};

TEST(FabricErrors, EveryStatusHasANameAndAnAdviceOfItsOwn) {
  std::set<std::string_view> names;
  std::set<std::string_view> advices;
  for (const Status status : kAll) {
    names.insert(name(status));
    advices.insert(advice(status));
  }
  EXPECT_EQ(names.size(), std::size(kAll));
  EXPECT_EQ(advices.size(), std::size(kAll));
  EXPECT_FALSE(names.contains("unknown status"));
  EXPECT_FALSE(advices.contains(""));
}

TEST(FabricErrors, AnErrorOfARequestNamesVerbAddressKeyDetailAndAdvice) {
  const WorkRequest request = fetch_add({{0x1230}, 8, {0x45}}, 1);
  const FabricError error(Status::remote_access, request, "the detail");
  EXPECT_EQ(error.status(), Status::remote_access);
  EXPECT_EQ(error.request().opcode, Opcode::fetch_add);
  const std::string text = error.what();
  EXPECT_THAT(text, HasSubstr("remote access error"));
  EXPECT_THAT(text, HasSubstr("FETCH-ADD of 8 bytes at 0x1230"));
  EXPECT_THAT(text, HasSubstr("0x45"));
  EXPECT_THAT(text, HasSubstr("the detail"));
  EXPECT_THAT(text, HasSubstr(std::string(advice(Status::remote_access))));
}

TEST(FabricErrors, ASendHasNoAddressToName) {
  const FabricError error(Status::rnr_retry_exceeded, send({}), "");
  EXPECT_THAT(error.what(), HasSubstr("SEND"));
  EXPECT_THAT(error.what(), Not(HasSubstr("rkey")));
}

TEST(FabricErrors, AnErrorWithoutARequestNamesNone) {
  const FabricError error(Status::stuck, "3 task(s) wait");
  EXPECT_THAT(error.what(), HasSubstr("stuck: 3 task(s) wait"));
  EXPECT_THAT(error.what(), Not(HasSubstr("WRITE")));
}

}  // namespace
}  // namespace sidelatch::fabric
