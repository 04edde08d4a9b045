#include "softnic/settings.h"

#include "tests/softnic/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <variant>

namespace sidelatch::softnic {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

Settings settings_of(const Variables& variables) {
  return settings_from([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of(const Variables& variables) {
  try {
    (void)settings_of(variables);
  } catch (const SettingsError& error) {
    return error.what();
  }
  return "taken";
}

TEST(Settings, WithoutVariablesAreTheDefaults) {
  const Settings settings = settings_of({});
  EXPECT_EQ(std::get<roce::SharedMemoryWireOptions>(settings.wire).name, "default");
  EXPECT_FALSE(settings.order);
  EXPECT_FALSE(settings.capture);
  EXPECT_THAT(environment_of(settings), IsEmpty());
}

TEST(Settings, TravelThroughTheEnvironment) {
  Settings settings;
  settings.wire = roce::LinkWireOptions{.local_path = "/tmp/a",
                                        .remote_path = "/tmp/b",
                                        .addresses = {.mac = {2, 0, 0xab, 0, 0, 7},
                                                      .ipv4 = {10, 0, 0, 7},
                                                      .ipv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}},
                                        .most_frame_bytes = 9014};
  settings.order = fabric::model::Preset::relaxed;
  settings.seed = 18446744073709551615U;
  settings.torn_bias = 0.125;
  settings.faults = {.seed = 3, .loss = 0.02, .duplication = 0.01, .corruption = 0.5, .reordering = 1, .delay = 0.25};
  settings.capture = "/tmp/x.pcap";
  settings.atomics = fabric::model::AtomicScope::nic;
  const auto environment = environment_of(settings);
  const Settings read = settings_of(Variables(environment.begin(), environment.end()));
  const auto& link = std::get<roce::LinkWireOptions>(read.wire);
  const auto& wanted = std::get<roce::LinkWireOptions>(settings.wire);
  EXPECT_EQ(link.local_path, wanted.local_path);
  EXPECT_EQ(link.remote_path, wanted.remote_path);
  EXPECT_EQ(link.addresses, wanted.addresses);
  EXPECT_EQ(link.most_frame_bytes, wanted.most_frame_bytes);
  EXPECT_EQ(read.order, settings.order);
  EXPECT_EQ(read.seed, settings.seed);
  EXPECT_EQ(read.torn_bias, settings.torn_bias);
  EXPECT_EQ(read.faults.seed, settings.faults.seed);
  EXPECT_EQ(read.faults.loss, settings.faults.loss);
  EXPECT_EQ(read.faults.duplication, settings.faults.duplication);
  EXPECT_EQ(read.faults.corruption, settings.faults.corruption);
  EXPECT_EQ(read.faults.reordering, settings.faults.reordering);
  EXPECT_EQ(read.faults.delay, settings.faults.delay);
  EXPECT_EQ(read.capture, settings.capture);
  EXPECT_EQ(read.atomics, settings.atomics);
}

TEST(Settings, EachWireHasItsText) {
  for (const std::string text : {"shm:lab", "folder:/srv/wire", "interface:eth0,10.0.0.9,mac=02:00:00:00:00:09",
                                 "interface:eth1,fd00::9", "link:/tmp/a,/tmp/b,10.0.0.9,mac=02:53:0a:00:00:09,mtu=1500",
                                 "switch:left,10.0.0.9,fd00::9,mac=02:53:0a:00:00:09"}) {
    EXPECT_EQ(text_of(parse_wire(text)), text);
  }
}

TEST(Settings, ALinksMacFollowsFromItsAddress) {
  const WireSettings wire = parse_wire("link:/tmp/a,/tmp/b,10.0.0.9");
  EXPECT_EQ(std::get<roce::LinkWireOptions>(wire).addresses.mac, (roce::MacAddress{2, 0x53, 10, 0, 0, 9}));
}

TEST(Settings, WhatMeansNothingIsNamed) {
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "carrier-pigeon:1"}}),
              AllOf(HasSubstr("carrier-pigeon:1"), HasSubstr("shm:NAME")));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "shm:"}}), HasSubstr("shm:NAME"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", ""}}), HasSubstr("shm:NAME"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "link:/tmp/a"}}), HasSubstr("OURS,THEIRS,ADDRESS"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "link:/tmp/a,/tmp/a,10.0.0.9"}}),
              AllOf(HasSubstr("link:/tmp/a,/tmp/a,10.0.0.9"), HasSubstr("are one socket")));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "link:/tmp/a,/tmp/b,mtu=9000"}}),
              HasSubstr("lacks an IP address"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "interface:eth0,300.1.1.1"}}), HasSubstr("300.1.1.1"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "interface:eth0,10.0.0.9,mtu=1500"}}), HasSubstr("MTU"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "interface:eth0,10.0.0.9,mac=1:2:3"}}), HasSubstr("mac=1:2:3"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "switch:left"}}), HasSubstr("lacks an IP address"));
  for (const std::string address : {"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff12::1", "::ffff:224.0.0.1"}) {
    EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", ("switch:left," + address).c_str()}}),
                HasSubstr("is no address of a station"))
        << address;
  }
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_WIRE", "switch:,10.0.0.9"}}), HasSubstr("switch:NAME,ADDRESS"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_ORDER", "chaos"}}), AllOf(HasSubstr("chaos"), HasSubstr("observed")));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_SEED", "-1"}}), HasSubstr("-1"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_SEED", "18446744073709551616"}}), HasSubstr("64 bits"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_ORDER", "spec"}, {"SIDELATCH_SOFTNIC_TORN_BIAS", "1.5"}}),
              HasSubstr("1.5"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_ORDER", "spec"}, {"SIDELATCH_SOFTNIC_TORN_BIAS", "nan"}}),
              HasSubstr("nan"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_TORN_BIAS", "0.5"}}), HasSubstr("SIDELATCH_SOFTNIC_ORDER"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_FAULTS", "loss=2"}}), AllOf(HasSubstr("loss"), HasSubstr("2")));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_FAULTS", "gremlins=1"}}), HasSubstr("gremlins"));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_FAULTS", "loss"}}), HasSubstr("loss"));
}

// A device may promise less than it keeps, and not more.
TEST(Settings, AtomicsArePromisedOnlyWhereTheyHold) {
  using fabric::model::AtomicScope;
  const auto scope = [](const Variables& variables) { return atomics_of(settings_of(variables)); };
  EXPECT_EQ(scope({}), AtomicScope::global);
  EXPECT_EQ(scope({{"SIDELATCH_SOFTNIC_ATOMICS", "glob"}}), AtomicScope::global);
  EXPECT_EQ(scope({{"SIDELATCH_SOFTNIC_ATOMICS", "hca"}}), AtomicScope::nic);
  EXPECT_EQ(scope({{"SIDELATCH_SOFTNIC_ORDER", "spec"}}), AtomicScope::nic);
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_ORDER", "spec"}, {"SIDELATCH_SOFTNIC_ATOMICS", "glob"}}),
              AllOf(HasSubstr("SIDELATCH_SOFTNIC_ATOMICS glob"), HasSubstr("spec")));
  EXPECT_THAT(refusal_of({{"SIDELATCH_SOFTNIC_ATOMICS", "none"}}), AllOf(HasSubstr("none"), HasSubstr("hca")));
}

TEST(Settings, ASecondProcessCapturesToAFileOfItsOwn) {
  const TemporaryFolder folder;
  Settings settings;
  settings.wire = roce::FolderWireOptions{.folder = folder.path() / "wire"};
  settings.capture = folder.path() / "x.pcap";
  std::ofstream(folder.path() / "x.pcap") << "another process's";
  const auto own = open_wire(settings);
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "x.pcap"), std::strlen("another process's"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / ("x." + std::to_string(::getpid()) + ".pcap")));
}

// Programs open the device, look at it, close it, and open it again for their work.
TEST(Settings, AllNicsOfAProcessCaptureToOneFile) {
  const TemporaryFolder folder;
  Settings settings;
  settings.wire = roce::FolderWireOptions{.folder = folder.path() / "wire"};
  settings.capture = folder.path() / "x.pcap";
  constexpr std::size_t kFrame = 64;
  for (int nic = 0; nic < 3; ++nic) {
    const auto wire = open_wire(settings);
    constexpr roce::MacAddress kAll = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    ASSERT_EQ(wire->reserve(kAll, kFrame).size(), kFrame);
    wire->commit(kFrame);
  }
  EXPECT_EQ(std::filesystem::file_size(*settings.capture), 24 + 3 * (16 + kFrame));     // of pcap's headers
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);  // the wire, and the capture
}

TEST(Settings, FramesOfAStationToItselfPassFaultsAndTheCapture) {
  const TemporaryFolder folder;
  Settings settings;
  settings.wire = roce::FolderWireOptions{.folder = folder.path() / "wire"};
  EXPECT_FALSE(watches_frames(settings));
  settings.capture = folder.path() / "x.pcap";
  settings.faults.duplication = 1;
  EXPECT_TRUE(watches_frames(settings));
  const auto wire = open_wire(settings);
  constexpr std::size_t kFrame = 64;
  const std::span<std::byte> room = wire->reserve(wire->addresses().mac, kFrame);
  ASSERT_EQ(room.size(), kFrame);
  roce::Ethernet{.destination = wire->addresses().mac, .source = wire->addresses().mac}.write(room.data());
  wire->commit(kFrame);
  EXPECT_EQ(wire->receive().size(), kFrame);
  EXPECT_EQ(wire->receive().size(), kFrame);
  EXPECT_TRUE(wire->receive().empty());
  EXPECT_EQ(std::filesystem::file_size(*settings.capture), 24 + 2 * (16 + kFrame));  // of pcap's headers
}

TEST(Settings, ACaptureThatCannotBeWrittenIsNamed) {
  Settings settings;
  const TemporaryFolder folder;
  settings.wire = roce::FolderWireOptions{.folder = folder.path() / "wire"};
  settings.capture = folder.path() / "none" / "x.pcap";
  try {
    (void)open_wire(settings);
    FAIL() << "opened";
  } catch (const roce::WireError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none/x.pcap"));
  }
}

}  // namespace
}  // namespace sidelatch::softnic
