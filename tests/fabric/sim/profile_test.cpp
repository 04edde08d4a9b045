#include <sidelatch/fabric/sim/profile.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace sidelatch::fabric::sim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view toml) {
  try {
    (void)parse_profile(toml, "nic.toml");
  } catch (const ProfileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Profile, ReadsEveryKeyItLists) {
  // Each key in turn is set to its upper bound, which must arrive: a listed key that is not read would keep its value.
  for (const ProfileKey& key : profile_keys()) {
    const std::size_t dot = key.path.find('.');
    std::string value = "2.5";
    if (key.path == "lock_table.service_ns") {
      value = "300.5";  // not below load_ns
    } else if (key.path == "pcie.reorder_probability" || key.path == "pcie.write_stall_probability") {
      value = "0.25";
    }
    const bool whole = key.path == "link.mtu" || key.path == "link.header_bytes" ||
                       key.path == "qp_cache.requester_entries" || key.path == "cpu.cores" ||
                       key.path == "lock_table.units" || key.path.ends_with("_bits") || key.path.ends_with("_bytes");
    if (whole) {
      value = key.path == "link.mtu" ? "1024" : key.path == "lock_table.address_bits" ? "10" : "16";
    }
    const std::string text = "[" + std::string(key.path.substr(0, dot)) + "]\n" +
                             std::string(key.path.substr(dot + 1)) + " = " + value + "\n";
    EXPECT_NO_THROW((void)parse_profile(text, "nic.toml")) << text;
    const std::string wrong =
        "[" + std::string(key.path.substr(0, dot)) + "]\n" + std::string(key.path.substr(dot + 1)) + " = -1\n";
    EXPECT_THAT(error_of(wrong),
                AllOf(HasSubstr(std::string(key.path) + " is -1: it must be "), StartsWith("nic.toml:2:")));
  }
}

TEST(Profile, KeepsWhatTheFileSays) {
  const Profile profile = parse_profile("name = \"x\"\n[lock_table]\naddress_bits = 10\nslot_bytes = 64\n", "nic.toml");
  EXPECT_EQ(profile.name, "x");
  EXPECT_EQ(profile.lock_table.slots(), 16U);
  EXPECT_EQ(profile.lock_table.slot_of(0x40), 1U);
  EXPECT_EQ(profile.lock_table.slot_of(0x3f), 0U);
  EXPECT_EQ(profile.lock_table.slot_of(0x400), 0U);
}

TEST(Profile, AKindOfRequestMayHaveItsOwnTimeAtTheTarget) {
  const Profile::Nic one = parse_profile("[nic]\nrespond_ns = 7\n", "nic.toml").nic;
  EXPECT_EQ(one.responds_to_write_ns(), 7);
  EXPECT_EQ(one.responds_to_read_ns(), 7);
  EXPECT_EQ(one.responds_to_atomic_ns(), 7);
  const Profile::Nic mixed =
      parse_profile("[nic]\nrespond_atomic_ns = 0\nrespond_ns = 7\nrespond_read_ns = 9\n", "nic.toml").nic;
  EXPECT_EQ(mixed.responds_to_write_ns(), 7);
  EXPECT_EQ(mixed.responds_to_read_ns(), 9);
  EXPECT_EQ(mixed.responds_to_atomic_ns(), 0);
  Profile wrong;
  wrong.nic.respond_read_ns = -2;
  EXPECT_THROW(wrong.validate(), ProfileError);
}

// One value for all kinds: no row of a paper may set a kind's own.
TEST(Profile, NoEmbeddedOneHasATimeForOneKindOnly) {
  for (const std::string& name : profile_names()) {
    const Profile::Nic nic = load_profile(name).nic;
    EXPECT_FALSE(nic.respond_write_ns || nic.respond_read_ns || nic.respond_atomic_ns) << name;
  }
}

TEST(Profile, AnUnknownKeyIsNamedWithItsPlaceAndTheKnownOnes) {
  EXPECT_THAT(error_of("[link]\ngbps = 100\nspeed = 3\n"),
              AllOf(StartsWith("nic.toml:3:1: error: unknown key link.speed"), HasSubstr("gbps, propagation_ns")));
  EXPECT_THAT(error_of("[lnik]\ngbps = 100\n"), AllOf(StartsWith("nic.toml:1:"), HasSubstr("unknown key lnik")));
}

// The reader needs stack for each table in a table.
TEST(Profile, ALineThatIsTooLongIsRefused) {
  std::string tables = "[link]\ngbps = 100\n[";
  for (int i = 0; i < 200'000; ++i) {
    tables += "a.";
  }
  EXPECT_THAT(error_of(tables + "b]\n"), StartsWith("nic.toml:3:1: error: this line has more than 4096 bytes"));
  EXPECT_THAT(error_of(tables.substr(0, 4096) + "b]\n"), HasSubstr("unknown key"));
}

TEST(Profile, AValueOfTheWrongSortIsNamed) {
  EXPECT_THAT(error_of("[link]\ngbps = \"fast\"\n"), HasSubstr("nic.toml:2:8: error: link.gbps must be a number"));
  EXPECT_THAT(error_of("[link]\nmtu = 1500.5\n"), HasSubstr("link.mtu is 1500.5: it must be a whole number"));
  EXPECT_THAT(error_of("link = 3\n"), HasSubstr("link must be a table"));
  EXPECT_THAT(error_of("name = 3\n"), HasSubstr("name must be a string"));
  EXPECT_THAT(error_of("[link]\ngbps = nan\n"), HasSubstr("link.gbps is nan"));
}

// The simulator keeps a table of the slots, and one of the queue pairs, for each node.
TEST(Profile, TablesThatWouldNotFitInMemoryAreRefused) {
  EXPECT_THAT(error_of("[lock_table]\naddress_bits = 22\n"),
              HasSubstr("nic.toml:2:16: error: lock_table.address_bits is 22: it must be 3 to 21 bits"));
  EXPECT_THAT(error_of("[qp_cache]\nrequester_entries = 1000001\n"),
              HasSubstr("qp_cache.requester_entries is 1000001: it must be 0 to 1e+06 queue pairs"));
  EXPECT_EQ(error_of("[lock_table]\naddress_bits = 21\n[qp_cache]\nrequester_entries = 1000000\n"), "no error");
}

TEST(Profile, ATextThatIsNotTomlIsAnErrorAtItsPlace) { EXPECT_THAT(error_of("[link\n"), StartsWith("nic.toml:1:")); }

TEST(Profile, ValuesThatContradictEachOtherAreNamed) {
  EXPECT_THAT(error_of("[lock_table]\nservice_ns = 10\nload_ns = 20\n"),
              HasSubstr("lock_table.load_ns is 20: it must be at most lock_table.service_ns = 10"));
  EXPECT_THAT(error_of("[lock_table]\nslot_bytes = 24\n"), HasSubstr("lock_table.slot_bytes is 24"));
  EXPECT_THAT(error_of("[lock_table]\naddress_bits = 4\nslot_bytes = 64\n"), HasSubstr("lock_table.slot_bytes is 64"));
  EXPECT_THAT(error_of("[memory]\natom_bytes = 24\n"), HasSubstr("memory.atom_bytes is 24"));
}

TEST(Profile, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(profile_names(), Contains("connectx5"));
  try {
    (void)load_profile("connectx9");
    FAIL();
  } catch (const ProfileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("connectx9"), HasSubstr("connectx5")));
  }
}

TEST(Profile, AFileThatCannotBeReadIsNamed) {
  try {
    (void)load_profile("/no/such/nic.toml");
    FAIL();
  } catch (const ProfileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/nic.toml"));
  }
}

TEST(Profile, EveryEmbeddedProfileIsValidAndCarriesItsName) {
  for (const std::string& name : profile_names()) {
    EXPECT_EQ(load_profile(name).name, name);
  }
}

// The value of each key, by its path.
std::map<std::string, std::string> values_of(const std::string& profile) {
  std::map<std::string, std::string> values;
  std::istringstream text(to_toml(load_profile(profile)));
  std::string table;
  for (std::string line; std::getline(text, line);) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('[')) {
      table = line.substr(1, line.find(']') - 1);
    } else if (equals != std::string::npos && !table.empty()) {
      values[table + '.' + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return values;
}

// The rows of the other NICs are to follow from the ConnectX-5's values. So a profile may change only what a public
// source says of its NIC, or what the experiment itself is about; docs/simulator.md says which.
TEST(Profile, OtherNicsDifferFromTheConnectX5OnlyWhereASourceSaysSo) {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"connectx7", {"link.gbps", "link.header_bytes", "nic.packet_ns", "pcie.gbps"}},
      {"bluefield2",
       {"link.header_bytes", "nic.chain_ns", "nic.respond_ns", "qp_cache.requester_entries", "pcie.gbps", "cpu.rpc_ns",
        "cpu.cores"}},
      {"tofino_testbed", {"link.propagation_ns", "link.header_bytes", "qp_cache.requester_entries"}}};
  const std::map<std::string, std::string> first = values_of("connectx5");
  ASSERT_EQ(first.size(), static_cast<std::size_t>(std::ranges::count(profile_keys(), false, &ProfileKey::optional)));
  for (const auto& [profile, keys] : allowed) {
    for (const auto& [key, value] : values_of(profile)) {
      EXPECT_EQ(value != first.at(key), keys.contains(key)) << profile << ", " << key << " = " << value;
    }
  }
}

// Set to N20, as docs/simulator.md explains.
TEST(Profile, Bluefield2sCoresServeTwentyMillionRequestsPerSecond) {
  const Profile::Cpu cpu = load_profile("bluefield2").cpu;
  EXPECT_EQ(static_cast<double>(cpu.cores) / cpu.rpc_ns * 1e3, 20);
}

TEST(Profile, CoresAreWholeAndMaySayNothing) {
  EXPECT_THAT(error_of("[cpu]\ncores = 1.5\n"), HasSubstr("cpu.cores is 1.5: it must be a whole number"));
  EXPECT_THAT(error_of("[cpu]\nrpc_ns = -1\n"), HasSubstr("cpu.rpc_ns is -1: it must be 0 to"));
  EXPECT_THAT(error_of("[cpu]\ncore = 8\n"), HasSubstr("rpc_ns, cores"));
  EXPECT_EQ(load_profile("connectx5").cpu.cores, 0U);
}

TEST(Profile, IsReadBackAsItWasWritten) {
  Profile profile = load_profile("connectx7");
  profile.name = "odd \"name\"\nin two lines";
  profile.link.gbps = 1.0 / 3;
  profile.lock_table.address_bits = 10;
  profile.nic.respond_read_ns = 9.5;
  const std::string text = to_toml(profile);
  const Profile back = parse_profile(text, "written.toml");
  EXPECT_EQ(back.name, profile.name);
  EXPECT_EQ(back.description, profile.description);
  EXPECT_EQ(back.link.gbps, profile.link.gbps);
  EXPECT_EQ(back.lock_table.address_bits, 10U);
  EXPECT_EQ(back.nic.respond_read_ns, 9.5);
  EXPECT_EQ(back.nic.respond_write_ns, std::nullopt);
  EXPECT_EQ(to_toml(back), text);
  // Every key that has a value is present.
  for (const ProfileKey& key : profile_keys()) {
    const bool is_written =
        text.find("\n" + std::string(key.path.substr(key.path.find('.') + 1)) + " = ") != std::string::npos;
    EXPECT_EQ(is_written, !key.optional || key.path == "nic.respond_read_ns") << key.path;
  }
}

}  // namespace
}  // namespace sidelatch::fabric::sim
