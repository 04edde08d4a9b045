#include "settings.h"

#include "roce/gid.h"
#include "roce/wire/link_paths.h"
#include "roce/wire/wire_name.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

namespace sidelatch::softnic {
namespace {

constexpr const char* kWire = kVariables[0];
constexpr const char* kOrder = kVariables[1];
constexpr const char* kSeed = kVariables[2];
constexpr const char* kTornBias = kVariables[3];
constexpr const char* kFaults = kVariables[4];
constexpr const char* kCapture = kVariables[5];
constexpr const char* kAtomics = kVariables[6];

constexpr std::string_view kWireForms =
    "shm:NAME, folder:PATH, link:OURS,THEIRS,ADDRESS[,mac=MAC][,mtu=BYTES], interface:NAME,ADDRESS[,mac=MAC] or "
    "switch:NAME,ADDRESS[,mac=MAC]";

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(at); end != std::string_view::npos; end = text.find(at)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

double chance_in(std::string_view name, std::string_view text) {
  const std::optional<double> chance = number_in<double>(text);
  if (!chance || !(*chance >= 0 && *chance <= 1)) {
    throw SettingsError(fmt::format("{} is \"{}\": a chance is a number from 0 to 1", name, text));
  }
  return *chance;
}

std::uint64_t seed_in(std::string_view name, std::string_view text) {
  const std::optional<std::uint64_t> seed = number_in<std::uint64_t>(text);
  if (!seed) {
    throw SettingsError(fmt::format("{} is \"{}\": a seed is a whole number of at most 64 bits", name, text));
  }
  return *seed;
}

using fabric::model::AtomicScope;

AtomicScope atomics_in(std::string_view name, std::string_view text) {
  if (text == "glob" || text == "hca") {
    return text == "glob" ? AtomicScope::global : AtomicScope::nic;
  }
  throw SettingsError(fmt::format(
      "{} is \"{}\": atomics are glob, atomic for CPUs too, or hca, only among those of the same NIC", name, text));
}

AtomicScope kept_scope(const Settings& settings) {
  return settings.order ? fabric::model::rules_of(*settings.order).atomic_scope : AtomicScope::global;
}

std::optional<roce::MacAddress> mac_in(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  roce::MacAddress mac{};
  if (parts.size() != mac.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < mac.size(); ++i) {
    const auto [end, error] = std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), mac[i], 16);
    if (error != std::errc{} || end != parts[i].data() + parts[i].size() || parts[i].empty()) {
      return std::nullopt;
    }
  }
  return mac;
}

std::string text_of(const roce::MacAddress& mac) { return fmt::format("{:02x}", fmt::join(mac, ":")); }

template <class Address>
std::string text_of(int family, const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address.data(), text.data(), text.size());
  return text.data();
}

// The part after the names in "link:...", "interface:..." and "switch:...".
struct Addresses {
  std::optional<roce::Ipv4Address> ipv4;
  std::optional<roce::Ipv6Address> ipv6;
  std::optional<roce::MacAddress> mac;
  std::optional<std::size_t> mtu;
};

// No address, a group's, or the broadcast address: a station cannot have these.
bool is_no_station(const roce::Gid& gid) {
  return roce::is_same(gid, {}) || roce::is_same(gid, roce::gid_of({})) || roce::is_group(gid) ||
         roce::is_same(gid, roce::gid_of({0xff, 0xff, 0xff, 0xff}));
}

void take_address(Addresses& addresses, std::string_view text, std::string_view whole) {
  const std::string part(text);
  roce::Ipv4Address ipv4{};
  roce::Ipv6Address ipv6{};
  const bool is_ipv4 = inet_pton(AF_INET, part.c_str(), ipv4.data()) == 1;
  const bool is_ipv6 = !is_ipv4 && inet_pton(AF_INET6, part.c_str(), ipv6.data()) == 1;
  if ((is_ipv4 || is_ipv6) && is_no_station(is_ipv4 ? roce::gid_of(ipv4) : ipv6)) {
    throw SettingsError(
        fmt::format(R"(the wire "{}": "{}" is no address of a station: give one that nobody else has)", whole, part));
  }
  if (is_ipv4) {
    addresses.ipv4 = ipv4;
  } else if (is_ipv6) {
    addresses.ipv6 = ipv6;
  } else if (part.starts_with("mac=") && mac_in(text.substr(4))) {
    addresses.mac = mac_in(text.substr(4));
  } else if (part.starts_with("mtu=") && number_in<std::size_t>(text.substr(4))) {
    addresses.mtu = number_in<std::size_t>(text.substr(4));
  } else {
    throw SettingsError(
        fmt::format(R"(the wire "{}": "{}" is no IP address, no mac=MAC and no mtu=BYTES)", whole, part));
  }
}

Addresses addresses_in(std::span<const std::string_view> parts, std::string_view whole) {
  Addresses addresses;
  for (const std::string_view part : parts) {
    take_address(addresses, part, whole);
  }
  if (!addresses.ipv4 && !addresses.ipv6) {
    throw SettingsError(fmt::format("the wire \"{}\" lacks an IP address of ours: {}", whole, kWireForms));
  }
  return addresses;
}

// A locally administered MAC, unique as long as the IP addresses are.
roce::MacAddress mac_for(const Addresses& addresses) {
  roce::MacAddress mac{0x02, 0x53};
  if (addresses.ipv4) {
    std::copy(addresses.ipv4->begin(), addresses.ipv4->end(), mac.begin() + 2);
  } else {
    std::copy(addresses.ipv6->end() - 4, addresses.ipv6->end(), mac.begin() + 2);
  }
  return mac;
}

std::string wire_name_in(std::string_view name, std::size_t most_bytes, std::string_view whole) {
  if (const std::string fault = roce::fault_of_wire_name(name, most_bytes); !fault.empty()) {
    throw SettingsError(fmt::format("the wire \"{}\": {}", whole, fault));
  }
  return std::string(name);
}

WireSettings link_in(const std::vector<std::string_view>& parts, std::string_view whole) {
  if (parts.size() < 3 || parts[0].empty() || parts[1].empty()) {
    throw SettingsError(
        fmt::format("the wire \"{}\" names no two sockets and an address: link:OURS,THEIRS,ADDRESS", whole));
  }
  if (const std::string fault = roce::fault_of_link(parts[0], parts[1]); !fault.empty()) {
    throw SettingsError(fmt::format("the wire \"{}\": {}", whole, fault));
  }
  const Addresses addresses = addresses_in(std::span(parts).subspan(2), whole);
  roce::LinkWireOptions options{.local_path = parts[0],
                                .remote_path = parts[1],
                                .addresses = {.mac = addresses.mac.value_or(mac_for(addresses)),
                                              .ipv4 = addresses.ipv4.value_or(roce::Ipv4Address{}),
                                              .ipv6 = addresses.ipv6.value_or(roce::Ipv6Address{})}};
  if (addresses.mtu) {
    options.most_frame_bytes = *addresses.mtu + roce::Ethernet::kBytes;
  }
  return options;
}

WireSettings interface_in(const std::vector<std::string_view>& parts, std::string_view whole) {
  const Addresses addresses = addresses_in(std::span(parts).subspan(1), whole);
  if (parts[0].empty() || addresses.mtu) {
    throw SettingsError(
        fmt::format("the wire \"{}\" is not interface:NAME,ADDRESS[,mac=MAC]; the MTU is the "
                    "interface's",
                    whole));
  }
  return roce::PacketWireOptions{
      .interface = std::string(parts[0]), .ipv4 = addresses.ipv4, .ipv6 = addresses.ipv6, .mac = addresses.mac};
}

WireSettings switch_in(const std::vector<std::string_view>& parts, std::string_view whole) {
  const Addresses addresses = addresses_in(std::span(parts).subspan(1), whole);
  if (parts[0].empty() || addresses.mtu) {
    throw SettingsError(fmt::format(
        "the wire \"{}\" is not switch:NAME,ADDRESS[,mac=MAC]; NAME is that of a port of the switch", whole));
  }
  return roce::CableWireOptions{.name = wire_name_in(parts[0], roce::kMostCableNameBytes, whole),
                                .addresses = {.mac = addresses.mac.value_or(mac_for(addresses)),
                                              .ipv4 = addresses.ipv4.value_or(roce::Ipv4Address{}),
                                              .ipv6 = addresses.ipv6.value_or(roce::Ipv6Address{})}};
}

struct Chance {
  std::string_view name;
  double roce::FaultOptions::*chance;
};
constexpr std::array kChances{
    Chance{"loss", &roce::FaultOptions::loss},
    Chance{"duplication", &roce::FaultOptions::duplication},
    Chance{"corruption", &roce::FaultOptions::corruption},
    Chance{"reordering", &roce::FaultOptions::reordering},
    Chance{"delay", &roce::FaultOptions::delay},
};

// Parses "loss=0.02,seed=7".
roce::FaultOptions faults_in(std::string_view text, const SettingNames& names) {
  roce::FaultOptions faults;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    const auto* const known =
        std::find_if(kChances.begin(), kChances.end(), [name](const Chance& chance) { return chance.name == name; });
    if (known != kChances.end()) {
      faults.*known->chance = chance_in(fmt::format("{}{}", names.fault, name), value);
    } else if (name == "seed") {
      faults.seed = seed_in(fmt::format("{}{}", names.fault, name), value);
    } else {
      throw SettingsError(
          fmt::format("{} is \"{}\": there is no fault \"{}\", but loss, duplication, corruption, "
                      "reordering, delay and seed",
                      kFaults, text, name));
    }
  }
  return faults;
}

std::filesystem::path new_capture(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file >= 0) {
    ::close(file);
    return path;
  }
  if (errno != EEXIST) {
    throw roce::WireError(fmt::format("cannot capture to {}: {}", path.string(), std::strerror(errno)));
  }
  std::filesystem::path own = path;
  return own.replace_extension(fmt::format(".{}{}", ::getpid(), path.extension().string()));
}

// The file itself for the first process, a file with the process's number for others. A NIC that the process makes
// later goes on in the same file: programs open the device, close it and open it again.
roce::CaptureOptions own_capture(const std::filesystem::path& path) {
  struct Capture {
    pid_t process;
    std::filesystem::path file;
  };
  static std::mutex mutex;
  static auto* const kCaptures = new std::map<std::filesystem::path, Capture>;  // for threads while the process exits
  const std::scoped_lock lock(mutex);
  if (const auto known = kCaptures->find(path); known != kCaptures->end() && known->second.process == ::getpid()) {
    return {.path = known->second.file, .appends = true};
  }
  const std::filesystem::path file = new_capture(path);
  kCaptures->insert_or_assign(path, Capture{::getpid(), file});
  return {.path = file};
}

struct Open {
  std::unique_ptr<roce::Wire> operator()(const roce::SharedMemoryWireOptions& options) const {
    return roce::join_shared_memory_wire(options);
  }
  std::unique_ptr<roce::Wire> operator()(const roce::FolderWireOptions& options) const {
    return roce::join_folder_wire(options);
  }
  std::unique_ptr<roce::Wire> operator()(const roce::LinkWireOptions& options) const {
    return roce::open_link_wire(options);
  }
  std::unique_ptr<roce::Wire> operator()(const roce::PacketWireOptions& options) const {
    return roce::open_packet_wire(options);
  }
  std::unique_ptr<roce::Wire> operator()(const roce::CableWireOptions& options) const {
    return roce::join_cable_wire(options);
  }
};

struct Text {
  static std::string station(const roce::StationAddresses& ours) {
    std::string text;
    if (ours.ipv4 != roce::Ipv4Address{}) {
      text += "," + text_of(AF_INET, ours.ipv4);
    }
    if (ours.ipv6 != roce::Ipv6Address{}) {
      text += "," + text_of(AF_INET6, ours.ipv6);
    }
    return text + ",mac=" + text_of(ours.mac);
  }
  std::string operator()(const roce::SharedMemoryWireOptions& options) const { return "shm:" + options.name; }
  std::string operator()(const roce::FolderWireOptions& options) const { return "folder:" + options.folder.string(); }
  std::string operator()(const roce::LinkWireOptions& options) const {
    return fmt::format("link:{},{}{},mtu={}", options.local_path.string(), options.remote_path.string(),
                       station(options.addresses), options.most_frame_bytes - roce::Ethernet::kBytes);
  }
  std::string operator()(const roce::CableWireOptions& options) const {
    return fmt::format("switch:{}{}", options.name, station(options.addresses));
  }
  std::string operator()(const roce::PacketWireOptions& options) const {
    std::string text = "interface:" + options.interface;
    if (options.ipv4) {
      text += "," + text_of(AF_INET, *options.ipv4);
    }
    if (options.ipv6) {
      text += "," + text_of(AF_INET6, *options.ipv6);
    }
    return options.mac ? text + ",mac=" + text_of(*options.mac) : text;
  }
};

}  // namespace

WireSettings parse_wire(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind = std::string_view(text).substr(0, colon);
  const std::string_view rest = std::string_view(text).substr(std::min(colon + 1, text.size()));
  if (rest.empty()) {
    throw SettingsError(fmt::format("the wire \"{}\" is none of {}", text, kWireForms));
  }
  if (kind == "shm") {
    return roce::SharedMemoryWireOptions{.name = wire_name_in(rest, roce::kMostWireNameBytes, text)};
  }
  if (kind == "folder") {
    return roce::FolderWireOptions{.folder = rest};
  }
  if (kind == "link") {
    return link_in(split(rest, ','), text);
  }
  if (kind == "interface") {
    return interface_in(split(rest, ','), text);
  }
  if (kind == "switch") {
    return switch_in(split(rest, ','), text);
  }
  throw SettingsError(fmt::format("the wire \"{}\" is none of {}", text, kWireForms));
}

std::string text_of(const WireSettings& wire) { return std::visit(Text{}, wire); }

std::string text_of(const roce::FaultOptions& faults) {
  std::string text;
  for (const Chance& chance : kChances) {
    if (faults.*chance.chance != 0) {
      text += fmt::format("{}={},", chance.name, faults.*chance.chance);
    }
  }
  return text.empty() ? text : fmt::format("{}seed={}", text, faults.seed);
}

Settings settings_from(const std::function<const char*(const char*)>& variable, const SettingNames& names) {
  Settings settings;
  if (const char* const wire = variable(kWire)) {
    settings.wire = parse_wire(wire);
  }
  if (const char* const order = variable(kOrder)) {
    try {
      settings.order = fabric::model::parse_preset(order);
    } catch (const std::invalid_argument& error) {
      throw SettingsError(fmt::format("{} {}: {}", names.order, order, error.what()));
    }
  }
  if (const char* const seed = variable(kSeed)) {
    settings.seed = seed_in(names.seed, seed);
  }
  if (const char* const bias = variable(kTornBias)) {
    settings.torn_bias = chance_in(names.torn_bias, bias);
  }
  if (const char* const faults = variable(kFaults)) {
    settings.faults = faults_in(faults, names);
  }
  if (const char* const capture = variable(kCapture)) {
    settings.capture = capture;
  }
  if (const char* const atomics = variable(kAtomics)) {
    settings.atomics = atomics_in(names.atomics, atomics);
  }
  if (settings.atomics == AtomicScope::global && kept_scope(settings) != AtomicScope::global) {
    throw SettingsError(fmt::format("{} glob: with {} {} atomics are only atomic among those of the same NIC",
                                    names.atomics, names.order, fabric::model::name(*settings.order)));
  }
  if (settings.torn_bias != 0 && !settings.order) {
    throw SettingsError(
        fmt::format("{} needs {}: without an order memory is touched at once", names.torn_bias, names.order));
  }
  return settings;
}

AtomicScope atomics_of(const Settings& settings) { return settings.atomics.value_or(kept_scope(settings)); }

std::vector<std::pair<std::string, std::string>> environment_of(const Settings& settings) {
  const Settings defaults;
  std::vector<std::pair<std::string, std::string>> variables;
  if (const std::string wire = text_of(settings.wire); wire != text_of(defaults.wire)) {
    variables.emplace_back(kWire, wire);
  }
  if (settings.order) {
    variables.emplace_back(kOrder, fabric::model::name(*settings.order));
  }
  if (settings.seed != defaults.seed) {
    variables.emplace_back(kSeed, fmt::format("{}", settings.seed));
  }
  if (settings.torn_bias != defaults.torn_bias) {
    variables.emplace_back(kTornBias, fmt::format("{}", settings.torn_bias));
  }
  if (const std::string faults = text_of(settings.faults); !faults.empty()) {
    variables.emplace_back(kFaults, faults);
  }
  if (settings.capture) {
    variables.emplace_back(kCapture, settings.capture->string());
  }
  if (settings.atomics) {
    variables.emplace_back(kAtomics, *settings.atomics == AtomicScope::global ? "glob" : "hca");
  }
  return variables;
}

bool watches_frames(const Settings& settings) {
  return settings.capture.has_value() || !text_of(settings.faults).empty();
}

std::unique_ptr<roce::Wire> open_wire(const Settings& settings) {
  std::unique_ptr<roce::Wire> wire = std::visit(Open{}, settings.wire);
  if (watches_frames(settings)) {
    wire = roce::with_loop(std::move(wire));
  }
  if (settings.capture) {
    wire = roce::with_capture(std::move(wire), own_capture(*settings.capture));
  }
  if (!text_of(settings.faults).empty()) {
    wire = roce::with_faults(std::move(wire), settings.faults);
  }
  return wire;
}

}  // namespace sidelatch::softnic
