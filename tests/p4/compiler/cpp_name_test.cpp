#include "p4/compiler/cpp_name.h"

#include <sidelatch/p4/emit.h>

#include <gtest/gtest.h>

#include <stdexcept>

namespace sidelatch::p4 {
namespace {

TEST(CppName, IsAnIdentifierAndNoKeyword) {
  for (const char* const name : {"l2", "_", "Class", "classes", "switch_1", "a__b", "final"}) {
    EXPECT_TRUE(is_cpp_name(name)) << name;
  }
  for (const char* const name :
       {"", "2l", "a-b", "a b", "class", "switch", "co_await", "xor_eq", "char8_t", "\xc3\xa4"}) {
    EXPECT_FALSE(is_cpp_name(name)) << name;
  }
}

TEST(CppName, AProgramIsNotCalledByAKeyword) {
  EXPECT_THROW(static_cast<void>(emit_cpp("there is no such file.p4", "class")), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::p4
