#include "softnic/nic/memory_table.h"

#include "softnic/nic/nic_error.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

class Table : public ::testing::Test {
 protected:
  Region region(std::size_t length = 64, Rights rights = Rights::all) {
    return {bytes_.data(), length, 0x1000, domain_, rights};
  }
  std::array<std::byte, 256> bytes_{};
  MemoryTable table_{4};
  Domain domain_ = table_.add_domain();
};

NicError::Kind kind_of_error(auto call) {
  try {
    call();
  } catch (const NicError& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return NicError::Kind::invalid;
}

TEST_F(Table, ARangeIsInsideOrNot) {
  const std::uint32_t key = table_.add(region());
  const auto find = [&](std::uint64_t address, std::uint64_t length) {
    return table_.remote(key, domain_, 1, address, length, Rights::remote_read);
  };
  EXPECT_EQ(find(0x1000, 64), bytes_.data());
  EXPECT_EQ(find(0x103f, 1), bytes_.data() + 63);
  EXPECT_EQ(find(0x1040, 0), bytes_.data() + 64);
  EXPECT_EQ(find(0xfff, 1), nullptr);
  EXPECT_EQ(find(0xfff, 64), nullptr);
  EXPECT_EQ(find(0x1000, 65), nullptr);
  EXPECT_EQ(find(0x1040, 1), nullptr);
  EXPECT_EQ(find(0x1041, 0), nullptr);
  EXPECT_EQ(find(0, std::numeric_limits<std::uint64_t>::max()), nullptr);
  EXPECT_EQ(find(0x1001, std::numeric_limits<std::uint64_t>::max()), nullptr);
  EXPECT_EQ(find(std::numeric_limits<std::uint64_t>::max(), 0x1002), nullptr);
}

TEST_F(Table, RightsAndDomainMustFit) {
  const Domain other = table_.add_domain();
  const std::uint32_t key = table_.add(region(64, Rights::local_write | Rights::remote_read));
  EXPECT_NE(table_.remote(key, domain_, 1, 0x1000, 8, Rights::remote_read), nullptr);
  EXPECT_NE(table_.local(key, domain_, 0x1000, 8, Rights::local_write), nullptr);
  EXPECT_EQ(table_.remote(key, domain_, 1, 0x1000, 8, Rights::remote_write), nullptr);
  EXPECT_EQ(table_.remote(key, domain_, 1, 0x1000, 8, Rights::remote_atomic), nullptr);
  EXPECT_EQ(table_.remote(key, other, 1, 0x1000, 8, Rights::remote_read), nullptr);
}

TEST_F(Table, KeysOfRegionsThatEndedOpenNothing) {
  std::set<std::uint32_t> keys;
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t key = table_.add(region());
    EXPECT_TRUE(keys.insert(key).second);  // a generation each
    EXPECT_NE(key, 0U);
    table_.remove(key);
    EXPECT_EQ(table_.find(key), nullptr);
    EXPECT_EQ(table_.local(key, domain_, 0x1000, 1, Rights::none), nullptr);
  }
  for (const std::uint32_t key : {0U, 1U, 0xffU, 0xffffffffU, 0xffffff00U, 0x80000000U}) {
    EXPECT_EQ(table_.remote(key, domain_, 1, 0x1000, 1, Rights::none), nullptr);
  }
}

// Nobody who has kept an old key gets a new region by it, however often regions come and go.
TEST_F(Table, AKeyDoesNotComeBack) {
  const std::uint32_t kept = table_.add(region());
  std::set<std::uint32_t> keys = {kept};
  for (int i = 0; i < 700; ++i) {
    const std::uint32_t key = table_.add(region());
    ASSERT_TRUE(keys.insert(key).second) << "registration " << i;
    table_.remove(key);
  }
  EXPECT_NE(table_.find(kept), nullptr);
}

// All values that a full table has are used up before one comes back, and the longest unused one comes first.
TEST_F(Table, WhenAllKeysAreUsedUpTheOldestComesFirst) {
  std::vector<std::uint32_t> keys;
  for (std::size_t i = 0; i < 4 * 256; ++i) {  // the table has four places, and a key eight bits of generation
    keys.push_back(table_.add(region()));
    table_.remove(keys.back());
  }
  EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), keys.size());
  const std::uint32_t again = table_.add(region());
  EXPECT_EQ(again, keys.front());
}

// Windows are: windows_test.cpp.
TEST_F(Table, ARegionIsNotInvalidated) {
  const std::uint32_t key = table_.add(region());
  EXPECT_FALSE(table_.invalidate(key, domain_, 1));
  EXPECT_NE(table_.remote(key, domain_, 1, 0x1000, 1, Rights::none), nullptr);
  table_.remove(key);
}

TEST_F(Table, RefusesWhatIsNoRegion) {
  const auto refused = [&](const Region& wrong) {
    return kind_of_error([&] { static_cast<void>(table_.add(wrong)); }) == NicError::Kind::invalid;
  };
  Region wrong = region();
  wrong.domain = 77;
  EXPECT_TRUE(refused(wrong));
  EXPECT_TRUE(refused(region(0)));
  wrong = region();
  wrong.address = std::numeric_limits<std::uint64_t>::max() - 62;
  EXPECT_TRUE(refused(wrong));
  wrong.address -= 1;
  EXPECT_NO_THROW(table_.remove(table_.add(wrong)));
  EXPECT_TRUE(refused(region(64, Rights::remote_write)));
  EXPECT_TRUE(refused(region(64, Rights::remote_atomic)));
}

TEST_F(Table, ALimitAndWhatIsInUse) {
  std::array<std::uint32_t, 4> keys{};
  for (std::uint32_t& key : keys) {
    key = table_.add(region());
  }
  EXPECT_EQ(kind_of_error([&] { static_cast<void>(table_.add(region())); }), NicError::Kind::full);
  EXPECT_EQ(kind_of_error([&] { table_.remove_domain(domain_); }), NicError::Kind::busy);
  for (const std::uint32_t key : keys) {
    table_.remove(key);
  }
  EXPECT_EQ(kind_of_error([&] { table_.remove(keys[0]); }), NicError::Kind::invalid);
  table_.remove_domain(domain_);
  EXPECT_EQ(kind_of_error([&] { table_.remove_domain(domain_); }), NicError::Kind::invalid);
  EXPECT_EQ(table_.add_domain(), domain_);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
