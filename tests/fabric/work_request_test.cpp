// Work requests as plain data: the fields that the factory functions set, and their refusals.
#include <sidelatch/fabric/work_request.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <stdexcept>

namespace sidelatch::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr RemoteSpan kWord{{0x1000}, 8, {5}};

class WorkRequests : public ::testing::Test {
 protected:
  std::array<std::byte, 64> bytes_{};
  LocalSpan local_{bytes_.data(), bytes_.size(), {3}};
};

TEST_F(WorkRequests, AWriteAndAReadMoveTheLengthOfTheLocalSpan) {
  const RemoteSpan remote{{0x2000}, 100, {6}};
  const WorkRequest out = write(local_, remote);
  EXPECT_EQ(out.opcode, Opcode::write);
  EXPECT_EQ(out.length(), 64U);
  EXPECT_EQ(out.remote, RemoteAddress{0x2000});
  EXPECT_EQ(out.rkey, RKey{6});
  EXPECT_EQ(out.local.data, bytes_.data());
  const WorkRequest in = read(local_.subspan(0, 10), remote);
  EXPECT_EQ(in.opcode, Opcode::read);
  EXPECT_EQ(in.length(), 10U);
}

TEST_F(WorkRequests, AtomicsCarryTheirOperandsAndMoveEightBytes) {
  const WorkRequest swap = compare_swap(kWord, 1, 2);
  EXPECT_EQ(swap.opcode, Opcode::compare_swap);
  EXPECT_EQ(swap.compare, 1U);
  EXPECT_EQ(swap.swap_or_add, 2U);
  EXPECT_EQ(swap.length(), 8U);
  EXPECT_EQ(swap.local.data, nullptr);
  const WorkRequest add = fetch_add(kWord, 7);
  EXPECT_EQ(add.opcode, Opcode::fetch_add);
  EXPECT_EQ(add.swap_or_add, 7U);
  EXPECT_TRUE(is_atomic(add.opcode) && is_atomic(swap.opcode));
  EXPECT_FALSE(is_atomic(Opcode::read) || is_atomic(Opcode::write) || is_atomic(Opcode::send));
}

TEST_F(WorkRequests, FlagsAreSetOnACopy) {
  const WorkRequest plain = write(local_, {{0x2000}, 64, {6}});
  const WorkRequest flagged = plain.with_fence().with_inline().with_signal();
  EXPECT_TRUE(flagged.fence && flagged.inlined && flagged.signaled);
  EXPECT_FALSE(plain.fence || plain.inlined || plain.signaled);
}

TEST_F(WorkRequests, SendAndRecvHaveNoRemoteAddress) {
  EXPECT_EQ(send(local_).opcode, Opcode::send);
  EXPECT_EQ(recv(local_).opcode, Opcode::recv);
  EXPECT_EQ(send(local_).length(), 64U);
  EXPECT_EQ(send(local_).remote, RemoteAddress{0});
}

TEST_F(WorkRequests, ARemoteSpanThatIsTooShortIsRefusedWithBothLengths) {
  const RemoteSpan remote{{0x2000}, 63, {6}};
  EXPECT_THAT([&] { (void)write(local_, remote); },
              ThrowsMessage<std::out_of_range>(AllOf(HasSubstr("WRITE of 64 bytes"), HasSubstr("only 63 bytes"))));
  EXPECT_THAT([&] { (void)read(local_, remote); },
              ThrowsMessage<std::out_of_range>(AllOf(HasSubstr("READ of 64 bytes"), HasSubstr("only 63 bytes"))));
  const RemoteSpan half{{0x2000}, 4, {6}};
  EXPECT_THAT([&] { (void)fetch_add(half, 1); },
              ThrowsMessage<std::out_of_range>(AllOf(HasSubstr("FETCH-ADD of 8 bytes"), HasSubstr("only 4 bytes"))));
  EXPECT_THAT([&] { (void)compare_swap(half, 0, 1); },
              ThrowsMessage<std::out_of_range>(AllOf(HasSubstr("CAS of 8 bytes"), HasSubstr("only 4 bytes"))));
}

TEST(Opcodes, EveryVerbHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Opcode op :
       {Opcode::write, Opcode::read, Opcode::compare_swap, Opcode::fetch_add, Opcode::send, Opcode::recv}) {
    names.insert(name(op));
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"WRITE", "READ", "CAS", "FETCH-ADD", "SEND", "RECV"}));
}

}  // namespace
}  // namespace sidelatch::fabric
