// A capture never overwrites what is read, or another capture. Nothing is truncated before that is known.
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/wired_switch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {
namespace capture_files {

using testing::AllOf;
using testing::HasSubstr;
namespace files = std::filesystem;

constexpr const char* kAnyProgram = R"(
#include <core.p4>
#include <v1model.p4>
struct H {}
struct M {}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply {} }
V1Switch(P(), V(), I(), I(), V(), D()) main;
)";

class CaptureFiles : public testing::Test {
 protected:
  CaptureFiles() {
    files::create_directories(folder_ / "sub");
    std::ofstream(folder_ / "in.pcap", std::ios::binary).write(kCapture, sizeof kCapture);
  }
  ~CaptureFiles() override { files::remove_all(folder_); }
  CaptureFiles(const CaptureFiles&) = delete;
  CaptureFiles& operator=(const CaptureFiles&) = delete;

  [[nodiscard]] std::string in(const std::string& file) const { return folder_ / file; }

  // The error, or "accepted". The input stays as it is.
  std::string error_of(const std::vector<std::string>& ports, const std::string& capture = "",
                       const std::vector<files::path>& inputs = {}) {
    WiredSwitchOptions options;
    for (const std::string& port : ports) {
      options.ports.push_back(parse_port(port));
    }
    options.capture = capture;
    options.inputs = inputs;
    std::string error = "accepted";
    try {
      const WiredSwitch device(program_, options);
    } catch (const std::invalid_argument& refused) {
      error = refused.what();
    }
    std::ifstream input(in("in.pcap"), std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(input), {}), std::string(kCapture, sizeof kCapture));
    return error;
  }

  // Without packets: times in microseconds, of Ethernet.
  static constexpr char kCapture[24] = {'\xd4', '\xc3', '\xb2', '\xa1', 2,      0,      4, 0, 0, 0, 0, 0,
                                        0,      0,      0,      0,      '\xff', '\xff', 0, 0, 1, 0, 0, 0};
  std::shared_ptr<const Program> program_ = compile(kAnyProgram, "any.p4");
  files::path folder_ = files::path(testing::TempDir()) / ("capture-files-" + std::to_string(::getpid()));
};

TEST_F(CaptureFiles, OfItsOwnEachIsTaken) {
  EXPECT_EQ(error_of({"1=pcap:" + in("in.pcap") + "," + in("a.pcap"), "2=pcap:," + in("b.pcap")}, in("c.pcap")),
            "accepted");
  EXPECT_EQ(error_of({"1=pcap:,/dev/null", "2=pcap:,/dev/null"}, "/dev/null"), "accepted");
}

TEST_F(CaptureFiles, WhatIsReadIsNotOverwritten) {
  EXPECT_THAT(error_of({"1=pcap:" + in("in.pcap"), "2=pcap:," + in("in.pcap")}),
              AllOf(HasSubstr("is read by port 1=pcap:"), HasSubstr("is written by port 2=pcap:,"),
                    HasSubstr("these are one file; give another one")));
  EXPECT_THAT(error_of({"1=pcap:" + in("in.pcap") + "," + in("in.pcap")}), HasSubstr("these are one file"));
  EXPECT_THAT(error_of({"1=pcap:" + in("in.pcap")}, in("in.pcap")), HasSubstr("is the capture of all packets"));
  EXPECT_THAT(error_of({"1=pcap:" + in("in.pcap")}, in("any.p4"), {in("any.p4"), ""}),
              HasSubstr("any.p4 is read before the switch begins"));
}

TEST_F(CaptureFiles, NoneOverwritesAnother) {
  EXPECT_THAT(error_of({"1=pcap:," + in("a.pcap"), "2=pcap:," + in("a.pcap")}), HasSubstr("these are one file"));
  EXPECT_THAT(error_of({"1=pcap:," + in("a.pcap")}, in("a.pcap")), HasSubstr("these are one file"));
  EXPECT_FALSE(files::exists(in("a.pcap")));
}

TEST_F(CaptureFiles, AFileIsTheSameHoweverItIsNamed) {
  files::create_symlink(in("in.pcap"), in("link.pcap"));
  files::create_hard_link(in("in.pcap"), in("hard.pcap"));
  files::create_symlink("../new.pcap", in("sub/dangling.pcap"));
  files::create_symlink("sub", in("folder"));
  for (const std::string name : {"link.pcap", "hard.pcap", "sub/../in.pcap", "./in.pcap", "folder/../in.pcap"}) {
    EXPECT_THAT(error_of({"1=pcap:" + in("in.pcap"), "2=pcap:," + in(name)}), HasSubstr("these are one file")) << name;
  }
  for (const std::string name : {"sub/dangling.pcap", "folder/dangling.pcap", "sub/../new.pcap"}) {
    EXPECT_THAT(error_of({"1=pcap:," + in("new.pcap"), "2=pcap:," + in(name)}), HasSubstr("these are one file"))
        << name;
  }
  EXPECT_FALSE(files::exists(in("new.pcap")));
  const std::string relative = "capture-files-new-" + std::to_string(::getpid());
  EXPECT_THAT(error_of({"1=pcap:," + relative}, "./" + relative), HasSubstr("these are one file"));
  EXPECT_FALSE(files::remove(relative));
}

}  // namespace capture_files
}  // namespace
}  // namespace sidelatch::p4
