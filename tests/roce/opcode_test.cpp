// The table of opcodes, against numbers and headers copied from the specification (9.2).
#include "roce/opcode.h"

#include "roce/headers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace sidelatch::roce {
namespace {

// By number: the headers behind the BTH, "P" for a payload, in the specification's order.
const std::map<unsigned, std::string> kReliableAndDatagrams = {{0x00, "P"},
                                                               {0x01, "P"},
                                                               {0x02, "P"},
                                                               {0x03, "ImmDt P"},
                                                               {0x04, "P"},
                                                               {0x05, "ImmDt P"},
                                                               {0x06, "RETH P"},
                                                               {0x07, "P"},
                                                               {0x08, "P"},
                                                               {0x09, "ImmDt P"},
                                                               {0x0a, "RETH P"},
                                                               {0x0b, "RETH ImmDt P"},
                                                               {0x0c, "RETH"},
                                                               {0x0d, "AETH P"},
                                                               {0x0e, "P"},
                                                               {0x0f, "AETH P"},
                                                               {0x10, "AETH P"},
                                                               {0x11, "AETH"},
                                                               {0x12, "AETH AtomicAckETH"},
                                                               {0x13, "AtomicETH"},
                                                               {0x14, "AtomicETH"},
                                                               {0x16, "IETH P"},
                                                               {0x17, "IETH P"},
                                                               {0x1d, "RETH P"},
                                                               {0x64, "DETH P"},
                                                               {0x65, "DETH ImmDt P"},
                                                               {0x81, "P"}};

// UC has RC's operations up to the last WRITE. XRC has all of them, and the requests begin with an XRCETH (A14).
const std::map<unsigned, std::string> kTable = [] {
  std::map<unsigned, std::string> table = kReliableAndDatagrams;
  for (const auto& [number, headers] : kReliableAndDatagrams) {
    if (number < 0x0c) {
      table[0x20 | number] = headers;
    }
    if (number < 0x20) {
      const bool is_answer = number >= 0x0d && number <= 0x12;
      table[0xa0 | number] = (is_answer ? "" : "XRCETH ") + headers;
    }
  }
  return table;
}();

std::string headers_of(const OpcodeTraits& traits) {
  std::string headers;
  const auto add = [&](bool there, const char* name) {
    if (there) {
      headers += (headers.empty() ? "" : " ") + std::string(name);
    }
  };
  add(traits.xrceth, "XRCETH");
  add(traits.deth, "DETH");
  add(traits.reth, "RETH");
  add(traits.atomic_eth, "AtomicETH");
  add(traits.aeth, "AETH");
  add(traits.atomic_ack_eth, "AtomicAckETH");
  add(traits.immediate, "ImmDt");
  add(traits.ieth, "IETH");
  add(traits.payload != PayloadRule::none, "P");
  return headers;
}

TEST(Opcodes, HaveTheHeadersOfTheTable) {
  for (unsigned number = 0; number < 256; ++number) {
    const std::optional<OpcodeTraits> traits = traits_of(static_cast<Opcode>(number));
    const auto row = kTable.find(number);
    ASSERT_EQ(traits.has_value(), row != kTable.end()) << number;
    if (traits) {
      EXPECT_EQ(headers_of(*traits), row->second) << number;
    }
  }
}

TEST(Opcodes, PayloadFollowsFirstMiddleLastOnly) {
  for (const auto& [number, headers] : kTable) {
    const auto opcode = static_cast<Opcode>(number);
    const std::string_view called = name(opcode);
    const PayloadRule rule = traits_of(opcode)->payload;
    const auto says = [&](std::string_view word) { return called.find(word) != std::string_view::npos; };
    const PayloadRule expected = says("first") || says("middle") ? PayloadRule::exact
                                 : says("last")                  ? PayloadRule::non_empty
                                 : says("ATOMIC WRITE")          ? PayloadRule::word
                                 : says("only") || says("CNP")   ? PayloadRule::any
                                                                 : PayloadRule::none;
    EXPECT_EQ(rule, expected) << called;
    EXPECT_EQ(called.substr(0, called.find(' ')), number >= 0xa0   ? "XRC"
                                                  : number >= 0x80 ? "CNP"
                                                  : number >= 0x60 ? "UD"
                                                  : number >= 0x20 ? "UC"
                                                                   : "RC");
  }
  EXPECT_EQ(name(static_cast<Opcode>(0x15)), "unknown");
}

TEST(Opcodes, ExtensionsAreAsLongAsTheirHeaders) {
  for (const auto& [number, headers] : kTable) {
    const OpcodeTraits traits = traits_of(static_cast<Opcode>(number)).value();
    EXPECT_EQ(traits.extension_bytes(),
              (traits.xrceth ? XrcEth::kBytes : 0) + (traits.deth ? Deth::kBytes : 0) +
                  (traits.reth ? Reth::kBytes : 0) + (traits.atomic_eth ? AtomicEth::kBytes : 0) +
                  (traits.aeth ? Aeth::kBytes : 0) + (traits.atomic_ack_eth ? AtomicAckEth::kBytes : 0) +
                  (traits.immediate ? ImmDt::kBytes : 0) + (traits.ieth ? Ieth::kBytes : 0))
        << number;
  }
}

}  // namespace
}  // namespace sidelatch::roce
