#include <sidelatch/fabric/sim/profile.h>

#include <sidelatch/fabric/sim/embedded_profiles.h>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <system_error>
#include <variant>

namespace sidelatch::fabric::sim {

namespace {

using Real = double& (*)(Profile&);
using Whole = std::uint64_t& (*)(Profile&);
using Optional = std::optional<double>& (*)(Profile&);

struct Field {
  ProfileKey key;
  std::variant<Real, Whole, Optional> place;
};

constexpr double kLongNs = 1e9;
// Each node has a table of the slots: 2 MiB then. `sidelatch check` looks for no more bits at a NIC.
constexpr double kMostAddressBits = 21;

// The only list of keys: reading, checking and documentation use it.
const std::array kFields = {
    Field{{"link.gbps", "Gbit/s", 0.001, 10000, "link rate"}, [](Profile& p) -> double& { return p.link.gbps; }},
    Field{{"link.propagation_ns", "ns", 0, kLongNs, "one way, switch included"},
          [](Profile& p) -> double& { return p.link.propagation_ns; }},
    Field{{"link.jitter_ns", "ns", 0, kLongNs, "added to each request message, uniform from 0"},
          [](Profile& p) -> double& { return p.link.jitter_ns; }},
    Field{{"link.mtu", "bytes", 256, 65536, "payload of one packet"},
          [](Profile& p) -> std::uint64_t& { return p.link.mtu; }},
    Field{{"link.header_bytes", "bytes", 0, 1024, "headers of one packet"},
          [](Profile& p) -> std::uint64_t& { return p.link.header_bytes; }},
    Field{{"nic.doorbell_ns", "ns", 0, kLongNs, "post to the NIC's first look at the request"},
          [](Profile& p) -> double& { return p.nic.doorbell_ns; }},
    Field{{"nic.chain_ns", "ns", 0, kLongNs, "initiator: service time per doorbell, beside that of its requests"},
          [](Profile& p) -> double& { return p.nic.chain_ns; }},
    Field{{"nic.cqe_ns", "ns", 0, kLongNs, "initiator: service time per completion that is signaled"},
          [](Profile& p) -> double& { return p.nic.cqe_ns; }},
    Field{{"nic.request_ns", "ns", 0, kLongNs, "initiator: service time per request"},
          [](Profile& p) -> double& { return p.nic.request_ns; }},
    Field{{"nic.respond_ns", "ns", 0, kLongNs, "target: service time per request"},
          [](Profile& p) -> double& { return p.nic.respond_ns; }},
    Field{{"nic.respond_write_ns", "ns", 0, kLongNs, "instead of nic.respond_ns, for a WRITE or SEND", true},
          [](Profile& p) -> std::optional<double>& { return p.nic.respond_write_ns; }},
    Field{{"nic.respond_read_ns", "ns", 0, kLongNs, "instead of nic.respond_ns, for a READ", true},
          [](Profile& p) -> std::optional<double>& { return p.nic.respond_read_ns; }},
    Field{{"nic.respond_atomic_ns", "ns", 0, kLongNs, "instead of nic.respond_ns, for an atomic", true},
          [](Profile& p) -> std::optional<double>& { return p.nic.respond_atomic_ns; }},
    Field{{"nic.packet_ns", "ns", 0, kLongNs, "service time per packet after a message's first"},
          [](Profile& p) -> double& { return p.nic.packet_ns; }},
    Field{{"nic.latency_ns", "ns", 0, kLongNs, "passing through one NIC"},
          [](Profile& p) -> double& { return p.nic.latency_ns; }},
    Field{{"nic.completion_ns", "ns", 0, kLongNs, "response's arrival to the CPU seeing the completion"},
          [](Profile& p) -> double& { return p.nic.completion_ns; }},
    Field{{"qp_cache.requester_entries", "queue pairs", 0, 1e6,
           "with requests in flight whose state the initiating NIC keeps; 0: all"},
          [](Profile& p) -> std::uint64_t& { return p.qp_cache.requester_entries; }},
    Field{{"qp_cache.miss_ns", "ns", 0, kLongNs, "added to the service time of a request that misses"},
          [](Profile& p) -> double& { return p.qp_cache.miss_ns; }},
    Field{{"lock_table.address_bits", "bits", 3, kMostAddressBits, "low address bits that choose a lock slot"},
          [](Profile& p) -> std::uint64_t& { return p.lock_table.address_bits; }},
    Field{{"lock_table.slot_bytes", "bytes", 8, 4096, "neighbouring bytes that share a slot, a power of two"},
          [](Profile& p) -> std::uint64_t& { return p.lock_table.slot_bytes; }},
    Field{{"lock_table.service_ns", "ns", 0.001, kLongNs, "from getting a slot until the new value has been stored"},
          [](Profile& p) -> double& { return p.lock_table.service_ns; }},
    Field{{"lock_table.load_ns", "ns", 0, kLongNs, "from getting a slot until the word has been read"},
          [](Profile& p) -> double& { return p.lock_table.load_ns; }},
    Field{{"lock_table.recovery_ns", "ns", 0, kLongNs, "from the store until the slot is free again"},
          [](Profile& p) -> double& { return p.lock_table.recovery_ns; }},
    Field{{"lock_table.changed_ns", "ns", 0, kLongNs, "how much longer, if the atomic has changed its word"},
          [](Profile& p) -> double& { return p.lock_table.changed_ns; }},
    Field{{"lock_table.units", "atomics", 0, 4096, "that the NIC executes at a time, on different slots; 0: no limit"},
          [](Profile& p) -> std::uint64_t& { return p.lock_table.units; }},
    Field{{"pcie.gbps", "Gbit/s", 0.001, 10000, "payload rate of the slot"},
          [](Profile& p) -> double& { return p.pcie.gbps; }},
    Field{{"pcie.read_ns", "ns", 0, kLongNs, "latency of a DMA read"},
          [](Profile& p) -> double& { return p.pcie.read_ns; }},
    Field{{"pcie.write_ns", "ns", 0, kLongNs, "latency of a posted write"},
          [](Profile& p) -> double& { return p.pcie.write_ns; }},
    Field{{"pcie.reorder_probability", "", 0, 1, "that a line of a READ is sampled late"},
          [](Profile& p) -> double& { return p.pcie.reorder_probability; }},
    Field{{"pcie.reorder_ns", "ns", 0, kLongNs, "how late on average, exponential"},
          [](Profile& p) -> double& { return p.pcie.reorder_ns; }},
    Field{{"pcie.write_stall_probability", "", 0, 1, "that a WRITE stops at one of its lines"},
          [](Profile& p) -> double& { return p.pcie.write_stall_probability; }},
    Field{{"pcie.write_stall_ns", "ns", 0, kLongNs, "for how long at most, uniform"},
          [](Profile& p) -> double& { return p.pcie.write_stall_ns; }},
    Field{{"memory.atom_bytes", "bytes", 8, 64, "sampled and placed whole: 8, 16, 32 or 64"},
          [](Profile& p) -> std::uint64_t& { return p.memory.atom_bytes; }},
    Field{{"cpu.checksum_gbytes", "Gbyte/s", 0, 1e6, "CRC64 of an object at the client; 0: costs nothing"},
          [](Profile& p) -> double& { return p.cpu.checksum_gbytes; }},
    Field{{"cpu.line_versions_gbytes", "Gbyte/s", 0, 1e6,
           "comparing line versions and gathering at the client; 0: costs nothing"},
          [](Profile& p) -> double& { return p.cpu.line_versions_gbytes; }},
    Field{{"cpu.rpc_ns", "ns", 0, kLongNs, "a core serves one small RPC: receive, one CPU atomic, send"},
          [](Profile& p) -> double& { return p.cpu.rpc_ns; }},
    Field{{"cpu.cores", "cores", 0, 4096, "that serve RPCs, each one at a time; 0: one for each client"},
          [](Profile& p) -> std::uint64_t& { return p.cpu.cores; }},
};

// Nothing if the key is optional and absent.
std::optional<double> value_of(const Field& field, Profile& profile) {
  if (const auto* real = std::get_if<Real>(&field.place)) {
    return (*real)(profile);
  }
  if (const auto* optional = std::get_if<Optional>(&field.place)) {
    return (*optional)(profile);
  }
  return static_cast<double>(std::get<Whole>(field.place)(profile));
}

// False for a NaN.
bool in_range(const ProfileKey& key, double value) { return value >= key.least && value <= key.most; }

std::string range_of(const ProfileKey& key) {
  return fmt::format("{:g} to {:g}{}{}", key.least, key.most, key.unit.empty() ? "" : " ", key.unit);
}

// The first complaint about a profile as a whole, or an empty string.
std::string complaint(const Profile& profile) {
  Profile copy = profile;
  for (const Field& field : kFields) {
    const std::optional<double> value = value_of(field, copy);
    if (value && !in_range(field.key, *value)) {
      return fmt::format("{} is {}: it must be {}", field.key.path, *value, range_of(field.key));
    }
  }
  if (!std::has_single_bit(profile.lock_table.slot_bytes)) {
    return fmt::format("lock_table.slot_bytes is {}: it must be a power of two", profile.lock_table.slot_bytes);
  }
  if (profile.lock_table.slots() == 0) {
    return fmt::format("lock_table.slot_bytes is {}: it must be at most 2^address_bits = {}",
                       profile.lock_table.slot_bytes, std::uint64_t{1} << profile.lock_table.address_bits);
  }
  if (profile.lock_table.load_ns > profile.lock_table.service_ns) {
    return fmt::format("lock_table.load_ns is {:g}: it must be at most lock_table.service_ns = {:g}",
                       profile.lock_table.load_ns, profile.lock_table.service_ns);
  }
  if (!std::has_single_bit(profile.memory.atom_bytes)) {
    return fmt::format("memory.atom_bytes is {}: it must be 8, 16, 32 or 64", profile.memory.atom_bytes);
  }
  return "";
}

[[noreturn]] void fail_at(std::string_view origin, const toml::source_region& where, std::string_view what) {
  throw ProfileError(fmt::format("{}:{}:{}: error: {}", origin, where.begin.line, where.begin.column, what));
}

std::string known_keys(std::string_view table) {
  std::string list;
  for (const Field& field : kFields) {
    const std::size_t dot = field.key.path.find('.');
    if (field.key.path.substr(0, dot) == table) {
      list += list.empty() ? "" : ", ";
      list += field.key.path.substr(dot + 1);
    }
  }
  return list;
}

void set_number(Profile& profile, const Field& field, const toml::node& node, std::string_view origin) {
  const auto number = node.value<double>();
  const bool is_number = node.is_integer() || node.is_floating_point();
  if (!is_number || !number) {
    fail_at(origin, node.source(), fmt::format("{} must be a number, {}", field.key.path, range_of(field.key)));
  }
  if (!in_range(field.key, *number)) {
    fail_at(origin, node.source(),
            fmt::format("{} is {}: it must be {}", field.key.path, *number, range_of(field.key)));
  }
  if (const auto* real = std::get_if<Real>(&field.place)) {
    (*real)(profile) = *number;
    return;
  }
  if (const auto* optional = std::get_if<Optional>(&field.place)) {
    (*optional)(profile) = *number;
    return;
  }
  if (!node.is_integer()) {
    fail_at(origin, node.source(), fmt::format("{} is {:g}: it must be a whole number", field.key.path, *number));
  }
  std::get<Whole>(field.place)(profile) = static_cast<std::uint64_t>(*node.value<std::int64_t>());
}

void read_table(Profile& profile, std::string_view table, const toml::table& keys, std::string_view origin) {
  for (const auto& [key, node] : keys) {
    const std::string path = fmt::format("{}.{}", table, key.str());
    const auto* field =
        std::ranges::find_if(kFields, [&](const Field& candidate) { return candidate.key.path == path; });
    if (field == kFields.end()) {
      fail_at(origin, key.source(), fmt::format("unknown key {}; [{}] has {}", path, table, known_keys(table)));
    }
    set_number(profile, *field, node, origin);
  }
}

void read_top_level(Profile& profile, const toml::key& key, const toml::node& node, std::string_view origin) {
  if (key.str() == "name" || key.str() == "description") {
    if (!node.is_string()) {
      fail_at(origin, node.source(), fmt::format("{} must be a string", key.str()));
    }
    (key.str() == "name" ? profile.name : profile.description) = *node.value<std::string>();
    return;
  }
  if (known_keys(key.str()).empty()) {
    fail_at(origin, key.source(),
            fmt::format("unknown key {}; a profile has name, description, [link], [nic], [qp_cache], [lock_table], "
                        "[pcie], [cpu], [memory]",
                        key.str()));
  }
  if (!node.is_table()) {
    fail_at(origin, node.source(), fmt::format("{} must be a table: [{}]", key.str(), key.str()));
  }
  read_table(profile, key.str(), *node.as_table(), origin);
}

}  // namespace

std::span<const ProfileKey> profile_keys() {
  static const std::vector<ProfileKey> kKeys = [] {
    std::vector<ProfileKey> list;
    std::ranges::transform(kFields, std::back_inserter(list), &Field::key);
    return list;
  }();
  return kKeys;
}

void Profile::validate() const {
  const std::string what = complaint(*this);
  if (!what.empty()) {
    throw ProfileError(fmt::format("profile {}: {}", name, what));
  }
}

namespace {

// A table's key may have any number of dots, and the library needs stack for each of them. So no line may be so long
// that they matter; a table of a table begins a line of its own.
void require_short_lines(std::string_view toml, std::string_view origin) {
  constexpr std::size_t kLongest = 4096;
  std::size_t number = 1;
  for (std::size_t from = 0; from < toml.size(); ++number) {
    const std::size_t end = std::min(toml.find('\n', from), toml.size());
    if (end - from > kLongest) {
      throw ProfileError(fmt::format("{}:{}:1: error: this line has more than {} bytes", origin, number, kLongest));
    }
    from = end + 1;
  }
}

}  // namespace

Profile parse_profile(std::string_view toml, std::string_view origin) {
  require_short_lines(toml, origin);
  Profile profile;
  try {
    const toml::table file = toml::parse(toml);
    for (const auto& [key, node] : file) {
      read_top_level(profile, key, node, origin);
    }
  } catch (const toml::parse_error& error) {
    fail_at(origin, error.source(), error.description());
  }
  const std::string what = complaint(profile);
  if (!what.empty()) {
    throw ProfileError(fmt::format("{}: error: {}", origin, what));
  }
  return profile;
}

std::string to_toml(const Profile& profile) {
  std::ostringstream text;
  text << "name = " << toml::value<std::string>(profile.name)
       << "\ndescription = " << toml::value<std::string>(profile.description) << '\n';
  Profile copy = profile;
  std::string_view table;
  for (const Field& field : kFields) {
    const std::size_t dot = field.key.path.find('.');
    if (field.key.path.substr(0, dot) != table) {
      table = field.key.path.substr(0, dot);
      text << fmt::format("\n[{}]\n", table);
    }
    const std::optional<double> number = value_of(field, copy);
    if (!number) {
      continue;
    }
    const auto* whole = std::get_if<Whole>(&field.place);
    const std::string value = whole != nullptr ? fmt::format("{}", (*whole)(copy)) : fmt::format("{}", *number);
    text << fmt::format("{} = {}  # {}{}{}\n", field.key.path.substr(dot + 1), value, field.key.unit,
                        field.key.unit.empty() ? "" : ", ", field.key.meaning);
  }
  return text.str();
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const EmbeddedProfile& profile : embedded_profiles()) {
    names.emplace_back(profile.name);
  }
  return names;
}

Profile load_profile(std::string_view name_or_path) {
  if (name_or_path.find('/') != std::string_view::npos || name_or_path.ends_with(".toml")) {
    const std::string path{name_or_path};
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(path, ignored);
    std::ifstream file(path, std::ios::binary);
    if (!file || is_folder) {
      throw ProfileError(fmt::format("cannot read profile {}{}: give the path of a TOML file, or one of the names {}",
                                     path, is_folder ? ", which is a folder" : "", fmt::join(profile_names(), ", ")));
    }
    // A file without an end (/dev/zero) would fill the memory.
    constexpr std::size_t kLargest = std::size_t{1} << 20;
    std::string text(kLargest + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLargest) {
      throw ProfileError(fmt::format("cannot read profile {}: it has more than {} bytes", path, kLargest));
    }
    return parse_profile(text, path);
  }
  for (const EmbeddedProfile& profile : embedded_profiles()) {
    if (profile.name == name_or_path) {
      return parse_profile(profile.toml, fmt::format("{}.toml", profile.name));
    }
  }
  throw ProfileError(fmt::format("unknown profile {}: give the path of a TOML file, or one of the names {}",
                                 name_or_path, fmt::join(profile_names(), ", ")));
}

}  // namespace sidelatch::fabric::sim
