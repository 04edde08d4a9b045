// The layouts of the messages are those of the tables of volume 1, 12.6 and 12.11. tshark reads them too, in
// tests/softnic/verbs/rdmacm_programs_test.cpp.
#include "softnic/cm/messages.h"

#include <gtest/gtest.h>

#include <random>

namespace sidelatch::softnic::cm {
namespace {

unsigned at(const Mad& mad, std::size_t offset) { return std::to_integer<unsigned>(mad[offset]); }

TEST(CmMessages, ARequestLiesWhereTheTableHasIt) {
  RequestMessage request{.local_id = 0x01020304,
                         .service_id = 0x0000000001061d2f,
                         .ca_guid = 0x1112131415161718,
                         .queue_pair = 0x212223,
                         .responder_resources = 0x24,
                         .initiator_depth = 0x25,
                         .remote_response_timeout = 20,
                         .transport = 0,
                         .flow_control = true,
                         .starting_psn = 0x313233,
                         .local_response_timeout = 19,
                         .retry_count = 7,
                         .p_key = 0xffff,
                         .path_mtu = 5,
                         .rnr_retry_count = 6,
                         .most_cm_retries = 15,
                         .shared_receives = true,
                         .extended_transport = 5,
                         .traffic_class = 0x41,
                         .hop_limit = 0x42,
                         .local_ack_timeout = 18};
  request.local_gid[0] = 0x51;
  request.remote_gid[15] = 0x52;
  request.private_data.front() = std::byte{0x61};
  request.private_data.back() = std::byte{0x62};
  const Mad mad = encode({.transaction = 0x7172737475767778, .body = request});
  // The header: base version, class, class version, method, transaction, attribute.
  EXPECT_EQ(at(mad, 0), 1U);
  EXPECT_EQ(at(mad, 1), 7U);
  EXPECT_EQ(at(mad, 2), 2U);
  EXPECT_EQ(at(mad, 3), 3U);
  EXPECT_EQ(at(mad, 8), 0x71U);
  EXPECT_EQ(at(mad, 15), 0x78U);
  EXPECT_EQ(at(mad, 16) << 8U | at(mad, 17), 0x10U);
  // The body begins at 24.
  EXPECT_EQ(at(mad, 24), 0x01U);
  EXPECT_EQ(at(mad, 24 + 15), 0x2fU);
  EXPECT_EQ(at(mad, 24 + 16), 0x11U);
  EXPECT_EQ(at(mad, 24 + 32), 0x21U);
  EXPECT_EQ(at(mad, 24 + 35), 0x24U);
  EXPECT_EQ(at(mad, 24 + 39), 0x25U);
  EXPECT_EQ(at(mad, 24 + 43), 20U << 3U | 1U);
  EXPECT_EQ(at(mad, 24 + 44), 0x31U);
  EXPECT_EQ(at(mad, 24 + 47), 19U << 3U | 7U);
  EXPECT_EQ(at(mad, 24 + 50), 5U << 4U | 6U);
  EXPECT_EQ(at(mad, 24 + 51), 15U << 4U | 8U | 5U);
  EXPECT_EQ(at(mad, 24 + 56), 0x51U);
  EXPECT_EQ(at(mad, 24 + 87), 0x52U);
  EXPECT_EQ(at(mad, 24 + 92), 0x41U);
  EXPECT_EQ(at(mad, 24 + 93), 0x42U);
  EXPECT_EQ(at(mad, 24 + 95), 18U << 3U);
  EXPECT_EQ(at(mad, 24 + 140), 0x61U);
  EXPECT_EQ(at(mad, 255), 0x62U);
}

TEST(CmMessages, AReplyLiesWhereTheTableHasIt) {
  ReplyMessage reply{.local_id = 0x01020304,
                     .remote_id = 0x05060708,
                     .queue_pair = 0x212223,
                     .extended_context = 0x414243,
                     .starting_psn = 0x313233,
                     .responder_resources = 0x24,
                     .initiator_depth = 0x25,
                     .flow_control = true,
                     .rnr_retry_count = 5,
                     .shared_receives = true,
                     .ca_guid = 0x1112131415161718};
  reply.private_data.front() = std::byte{0x61};
  const Mad mad = encode({.transaction = 0, .body = reply});
  EXPECT_EQ(at(mad, 17), 0x13U);
  EXPECT_EQ(at(mad, 24 + 7), 0x08U);
  EXPECT_EQ(at(mad, 24 + 12), 0x21U);
  EXPECT_EQ(at(mad, 24 + 16), 0x41U);
  EXPECT_EQ(at(mad, 24 + 20), 0x31U);
  EXPECT_EQ(at(mad, 24 + 24), 0x24U);
  EXPECT_EQ(at(mad, 24 + 25), 0x25U);
  EXPECT_EQ(at(mad, 24 + 26), 1U);
  EXPECT_EQ(at(mad, 24 + 27), 5U << 5U | 1U << 4U);
  EXPECT_EQ(at(mad, 24 + 28), 0x11U);
  EXPECT_EQ(at(mad, 24 + 36), 0x61U);
}

std::vector<Message> samples() {
  RejectMessage timeout{
      .local_id = 1, .remote_id = 0, .of = 2, .reason = kRejectTimeout, .ca_guid = 0x123456789abcdef0};
  timeout.private_data.back() = std::byte{9};
  return {{1, RequestMessage{.local_id = 1, .service_id = 2, .queue_pair = 0xffffff, .starting_psn = 0xabcdef}},
          {2, ReceiptMessage{.local_id = 1, .remote_id = 2, .of = 1, .service_timeout = 24}},
          {3, timeout},
          {3, RejectMessage{.local_id = 0, .remote_id = 5, .of = 0, .reason = kInvalidServiceId}},
          {4, ReplyMessage{.local_id = 1, .remote_id = 2, .queue_pair = 3}},
          {5, ReadyMessage{.local_id = 1, .remote_id = 2}},
          {6, DisconnectMessage{.local_id = 1, .remote_id = 2, .remote_qp = 0x112233}},
          {7, DisconnectedMessage{.local_id = 1, .remote_id = 2}},
          {8, DatagramRequestMessage{.request_id = 1, .p_key = 0xffff, .service_id = 2}},
          {9, DatagramReplyMessage{.request_id = 1,
                                   .status = DatagramStatus::rejected,
                                   .queue_pair = 2,
                                   .service_id = 3,
                                   .q_key = 0x80010000}}};
}

TEST(CmMessages, WhatIsEncodedIsDecoded) {
  for (const Message& message : samples()) {
    const auto decoded = decode(encode(message));
    ASSERT_TRUE(decoded) << "message " << message.body.index();
    EXPECT_EQ(*decoded, message) << "message " << message.body.index();
  }
}

TEST(CmMessages, OtherBytesAreNoMessage) {
  const Mad good = encode(samples().front());
  EXPECT_FALSE(decode(std::span(good).first(255)));
  EXPECT_FALSE(decode({}));
  const std::array<std::byte, 257> longer{};
  EXPECT_FALSE(decode(longer));
  for (const std::size_t changed : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{16}}) {
    Mad bad = good;
    bad[changed] ^= std::byte{0x40};
    EXPECT_FALSE(decode(bad)) << "byte " << changed;
  }
  for (const unsigned attribute : {0x0fU, 0x19U, 0x1aU, 0x40U}) {  // LAP and APR among them
    Mad bad = good;
    bad[17] = static_cast<std::byte>(attribute);
    EXPECT_FALSE(decode(bad)) << "attribute " << attribute;
  }
}

}  // namespace
}  // namespace sidelatch::softnic::cm
