// A node that cannot read its own memory says why: with the error of the call that failed.
#include "fabric/verbs/own_read.h"

#include "fabric/verbs/node.h"
#include "stub_provider.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OwnReads : public ::testing::Test {
 protected:
  OwnReads() : fabric_((stub_device() = StubDevice(), DeviceOptions{})) {}
  std::string error_of_run() {
    try {
      own_read_.run();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "no error";
  }

  VerbsFabric fabric_;
  VerbsNode& node_ = dynamic_cast<VerbsNode&>(fabric_.add_node("storage"));
  OwnRead own_read_{node_.port(), node_.domain()};
};

// If the device fails at all that follows, too, that is not the cause.
TEST_F(OwnReads, SayTheFirstErrorOnly) {
  stub_device().completion_queue_error = ENOMEM;
  stub_device().registration_error = EACCES;
  EXPECT_THAT(error_of_run(), AllOf(HasSubstr("stub0"), HasSubstr("completion queue"), HasSubstr(std::strerror(ENOMEM)),
                                    Not(HasSubstr(std::strerror(EACCES)))));
  stub_device().completion_queue_error = 0;
  EXPECT_THAT(error_of_run(), AllOf(HasSubstr("stub0"), HasSubstr("register"), HasSubstr(std::strerror(EACCES))));
}

TEST_F(OwnReads, WorkOnceTheDeviceDoesAgain) {
  stub_device().registration_error = EACCES;
  EXPECT_NE(error_of_run(), "no error");
  stub_device().registration_error = 0;
  EXPECT_EQ(error_of_run(), "no error");
  EXPECT_EQ(error_of_run(), "no error");
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
