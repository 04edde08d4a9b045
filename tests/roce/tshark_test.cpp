// The library's packets as seen by tshark, Wireshark's program for terminals.
#include "tests/roce/samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

namespace sidelatch::roce {
namespace {

void append_number(std::string& out, std::uint32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Same format as tcpdump's, without times.
void write_capture(const std::string& path, const std::vector<Bytes>& frames) {
  std::string text;
  for (const std::uint32_t number : {0xa1b2c3d4U, 0x00040002U, 0U, 0U, 65535U, 1U}) {
    append_number(text, number);
  }
  for (const Bytes& frame : frames) {
    for (const std::size_t number : {std::size_t{0}, std::size_t{0}, frame.size(), frame.size()}) {
      append_number(text, static_cast<std::uint32_t>(number));
    }
    text.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
  std::ofstream(path, std::ios::binary) << text;
}

struct Field {
  const char* name;  // tshark's
  std::function<bool(const OpcodeTraits&)> is_there;
  std::function<std::uint64_t(const Packet&)> value;
  bool is_bytes = false;  // tshark prints hexadecimal digits without 0x
};

bool always(const OpcodeTraits& /*traits*/) { return true; }

const std::array<Field, 24>& fields() {
  const auto reth = [](const OpcodeTraits& t) { return t.reth; };
  const auto reth_or_atomic = [](const OpcodeTraits& t) { return t.reth || t.atomic_eth; };
  const auto atomic = [](const OpcodeTraits& t) { return t.atomic_eth; };
  const auto aeth = [](const OpcodeTraits& t) { return t.aeth; };
  static const std::array<Field, 24> kFields = {{
      {"infiniband.bth.opcode", always, [](const Packet& p) { return static_cast<std::uint64_t>(p.bth.opcode); }},
      {"infiniband.bth.se", always, [](const Packet& p) { return p.bth.solicited_event ? 1U : 0U; }},
      {"infiniband.bth.m", always, [](const Packet& p) { return p.bth.migration ? 1U : 0U; }},
      {"infiniband.bth.padcnt", always, [](const Packet& p) { return (4 - p.payload.size() % 4) % 4; }},
      {"infiniband.bth.tver", always, [](const Packet&) { return 0U; }},
      {"infiniband.bth.p_key", always, [](const Packet& p) { return p.bth.p_key; }},
      {"infiniband.bth.destqp", always, [](const Packet& p) { return p.bth.destination_qp; }},
      {"infiniband.bth.a", always, [](const Packet& p) { return p.bth.ack_request ? 1U : 0U; }},
      {"infiniband.bth.reserved7", always, [](const Packet& p) { return p.bth.resv7; }},
      {"infiniband.bth.psn", always, [](const Packet& p) { return p.bth.psn.value(); }},
      {"udp.srcport", always, [](const Packet& p) { return p.udp.source_port; }},
      {"infiniband.deth.q_key", [](const OpcodeTraits& t) { return t.deth; },
       [](const Packet& p) { return p.deth.q_key; }},
      {"infiniband.deth.srcqp", [](const OpcodeTraits& t) { return t.deth; },
       [](const Packet& p) { return p.deth.source_qp; }},
      {"infiniband.reth.va", reth_or_atomic,
       [](const Packet& p) {
         return traits_of(p.bth.opcode)->reth ? p.reth.virtual_address : p.atomic.virtual_address;
       }},
      {"infiniband.reth.r_key", reth_or_atomic,
       [](const Packet& p) { return traits_of(p.bth.opcode)->reth ? p.reth.r_key : p.atomic.r_key; }},
      {"infiniband.reth.dmalen", reth, [](const Packet& p) { return p.reth.dma_length; }},
      {"infiniband.atomiceth.swapdt", atomic, [](const Packet& p) { return p.atomic.swap_or_add; }},
      {"infiniband.atomiceth.cmpdt", atomic, [](const Packet& p) { return p.atomic.compare; }},
      {"infiniband.aeth.syndrome", aeth, [](const Packet& p) { return p.aeth.syndrome.byte(); }},
      {"infiniband.aeth.syndrome.timer", aeth, [](const Packet& p) { return p.aeth.syndrome.value(); }},
      {"infiniband.aeth.msn", aeth, [](const Packet& p) { return p.aeth.msn; }},
      {"infiniband.atomicacketh.origremdt", [](const OpcodeTraits& t) { return t.atomic_ack_eth; },
       [](const Packet& p) { return p.atomic_ack.original; }},
      {"infiniband.immdt", [](const OpcodeTraits& t) { return t.immediate; },
       [](const Packet& p) { return p.immediate.data; }, true},
      {"infiniband.ieth", [](const OpcodeTraits& t) { return t.ieth; }, [](const Packet& p) { return p.ieth.r_key; },
       true},
  }};
  return kFields;
}

// One line per frame, fields separated by ';'.
std::vector<std::string> tshark(const std::string& capture, std::string& errors) {
  std::string command = "tshark -r '" + capture + "' -T fields -E 'separator=;' -E occurrence=f";
  for (const Field& field : fields()) {
    command += fmt::format(" -e {}", field.name);
  }
  std::FILE* const pipe = ::popen((command + " 2>'" + capture + ".errors'").c_str(), "r");
  std::string output;
  std::array<char, 4096> part{};
  while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe) != nullptr) {
    output += part.data();
  }
  const int status = pipe == nullptr ? -1 : ::pclose(pipe);
  std::ifstream file(capture + ".errors");
  errors = std::string(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(capture + ".errors");
  std::vector<std::string> lines;
  std::istringstream rows(output);
  for (std::string line; status == 0 && std::getline(rows, line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST(Tshark, ReadsWhatWasBuilt) {
  std::vector<Packet> packets;
  std::vector<Bytes> frames;
  std::vector<Bytes> payloads;
  payloads.reserve(200);  // the packets point into them
  for (const int version : {4, 6}) {
    for (const Opcode opcode : all_opcodes()) {
      // tshark 4.0 knows no headers behind these.
      if (service_of(opcode) == Service::xrc || opcode == Opcode::atomic_write) {
        continue;
      }
      payloads.push_back(payload_of(some_length(opcode)));
      packets.push_back(sample(version, opcode, payloads.back()));
      packets.back().bth.migration = packets.size() % 2 == 0;
      frames.push_back(built(packets.back()));
    }
  }
  const std::string capture = fmt::format("{}/sidelatch_roce_{}.pcap", ::testing::TempDir(), ::getpid());
  write_capture(capture, frames);
  std::string errors;
  const std::vector<std::string> lines = tshark(capture, errors);
  std::filesystem::remove(capture);
  ASSERT_EQ(lines.size(), packets.size()) << "apt-get install tshark; " << errors;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    SCOPED_TRACE(fmt::format("{}: {}", name(packets[i].bth.opcode), lines[i]));
    const OpcodeTraits traits = traits_of(packets[i].bth.opcode).value();
    std::istringstream row(lines[i]);
    for (const Field& field : fields()) {
      std::string found;
      std::getline(row, found, ';');
      if (field.is_there(traits)) {
        EXPECT_FALSE(found.empty()) << field.name;
        EXPECT_EQ(std::strtoull(found.c_str(), nullptr, field.is_bytes ? 16 : 0), field.value(packets[i]))
            << field.name << ": " << found;
      } else {
        EXPECT_TRUE(found.empty()) << field.name << ": " << found;
      }
    }
  }
}

}  // namespace
}  // namespace sidelatch::roce
