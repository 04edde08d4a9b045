// Checks a simulated NIC, derives its profile, and checks that profile.
#include <sidelatch/checker/profile_of.h>

#include <sidelatch/checker/check.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

// A check takes its profile by name or file.
class ProfileFile {
 public:
  explicit ProfileFile(const sim::Profile& profile)
      : path_(std::filesystem::temp_directory_path() / ("sidelatch-" + std::to_string(::getpid()) + "-" +
                                                        profile.name.substr(profile.name.find(':') + 1) + ".toml")) {
    std::ofstream(path_) << sim::to_toml(profile);
  }
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;
  ~ProfileFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

CheckReport check(const sim::Profile& profile) {
  const tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  const ProfileFile file(profile);
  CheckOptions options;
  options.fabric = "sim";
  options.profile = file.path();
  options.parts = {"torn-reads", "lock-table", "rates"};
  options.sizes = {512};
  options.reads = 5000;
  options.seconds = 3600;
  return run_check(options);
}

const Series& series_of(const CheckReport& report, Curve curve) {
  return *std::ranges::find(report.series, name(curve), &Series::name);
}

// A check of the derived profile measures the same as a check of the NIC: the lock table exactly, rates within a tenth.
void expect_reproduced(sim::Profile profile, const char* name) {
  profile.name = name;
  const CheckReport nic = check(profile);
  ASSERT_TRUE(nic.complete);
  EXPECT_EQ(nic.lock_table->address_bits, profile.lock_table.address_bits);
  EXPECT_EQ(nic.lock_table->slot_bytes, profile.lock_table.slot_bytes);
  const sim::Profile emitted = profile_of(nic);
  EXPECT_EQ(emitted.memory.atom_bytes, profile.memory.atom_bytes) << name;
  EXPECT_NEAR(static_cast<double>(emitted.qp_cache.requester_entries),
              static_cast<double>(profile.qp_cache.requester_entries),
              static_cast<double>(profile.qp_cache.requester_entries) / 10);
  EXPECT_NEAR(emitted.link.gbps, profile.link.gbps, profile.link.gbps / 10) << name;
  const CheckReport again = check(emitted);
  EXPECT_EQ(again.lock_table->address_bits, nic.lock_table->address_bits) << name;
  EXPECT_EQ(again.lock_table->slots, nic.lock_table->slots) << name;
  EXPECT_EQ(again.lock_table->slot_bytes, nic.lock_table->slot_bytes) << name;
  for (const Curve curve : kCurves) {
    const Series& before = series_of(nic, curve);
    for (const Point& point : before.points) {
      // At the knee itself, one queue pair more or less makes the difference.
      const auto fit = static_cast<double>(profile.qp_cache.requester_entries);
      if (curve == Curve::read_by_queue_pairs && std::abs(point.x - fit) <= fit / 10) {
        continue;
      }
      const Series& after = series_of(again, curve);
      const auto found = std::ranges::find(after.points, point.x, &Point::x);
      if (found != after.points.end()) {  // the search for the knee may pass other points
        EXPECT_NEAR(found->y, point.y, point.y / 10) << name << ": " << before.name << " at " << point.x;
      }
    }
  }
}

TEST(ProfileOf, ReproducesConnectX5) { expect_reproduced(sim::load_profile("connectx5"), "connectx5"); }

TEST(ProfileOf, ReproducesConnectX7) { expect_reproduced(sim::load_profile("connectx7"), "connectx7"); }

TEST(ProfileOf, ReproducesAnInventedNic) {
  sim::Profile invented = sim::load_profile("connectx5");
  invented.link.gbps = 40;
  invented.link.propagation_ns = 1000;
  // Their sum is the cost of a request. The check cannot separate them, so their proportion stays.
  invented.nic.chain_ns *= 3;
  invented.nic.cqe_ns *= 3;
  invented.nic.respond_read_ns = 120;
  invented.nic.respond_write_ns = 60;
  invented.nic.respond_atomic_ns = 90;
  invented.qp_cache.requester_entries = 40;
  invented.qp_cache.miss_ns = 900;
  invented.lock_table.address_bits = 10;
  invented.lock_table.slot_bytes = 16;
  invented.lock_table.service_ns = 700;
  invented.lock_table.recovery_ns = 300;
  invented.memory.atom_bytes = 16;
  expect_reproduced(invented, "invented");
}

TEST(ProfileOf, SaysWhatTheCheckLacks) {
  CheckReport report;
  report.device = "mlx5_0";
  EXPECT_THAT([&report] { (void)profile_of(report); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("the parts lock-table and rates")));
}

}  // namespace
}  // namespace sidelatch::checker
