#include "serve.h"

#include "commands.h"
#include "json_text.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/fabric/verbs/memory_server.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace sidelatch::tools {

namespace {

constexpr std::uint64_t kMostMib = std::uint64_t{1} << 20;

struct Share {
  std::string name;
  std::uint64_t mib = 0;
};

// "objects=64".
Share parse_share(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::uint64_t mib = 0;
  const char* const end = text.data() + text.size();
  const char* const begin = equals == std::string::npos ? end : text.data() + equals + 1;
  const auto [next, error] = std::from_chars(begin, end, mib);
  if (error != std::errc{} || next != end || equals == 0 || mib == 0 || mib > kMostMib) {
    throw std::invalid_argument(
        fmt::format("--share {}: it is NAME=MIB, as in objects=64; 1 to {} MiB", text, kMostMib));
  }
  return {.name = text.substr(0, equals), .mib = mib};
}

// The memory that programs may still take, in MiB (proc_meminfo(5)); nothing where the system does not say.
std::optional<std::uint64_t> free_mib() {
  constexpr std::uint64_t kKibPerMib = 1024;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    std::uint64_t kib = 0;
    if (words >> what >> kib && what == "MemAvailable:") {
      return kib / kKibPerMib;
    }
  }
  return std::nullopt;
}

// Shared memory is there from the beginning, all of it. The system would end other programs to find what it lacks, and
// while it looks, no signal but SIGKILL ends this one.
void require_memory_for(const std::vector<Share>& shares) {
  std::uint64_t wanted = 0;
  std::vector<std::string> names;
  for (const Share& share : shares) {
    wanted += share.mib;
    names.push_back(fmt::format("{}={}", share.name, share.mib));
  }
  const std::optional<std::uint64_t> free = free_mib();
  if (free && wanted > *free) {
    throw checker::EnvironmentError(
        fmt::format("--share {}: {} MiB are to be shared, and this machine has {} MiB available: share less",
                    fmt::join(names, ", "), wanted, *free));
  }
}

}  // namespace

Option add_serve_options(Command command, ServeArguments& arguments) {
  Option server =
      command
          .option_calling(
              "--server",
              [&arguments](const std::string& address) {
                arguments.wanted = true;
                arguments.address = address == "loopback" ? "" : address;
              },
              "HOST[:PORT] to listen on (default 127.0.0.1:18515): lend this machine's memory to --connect clients")
          .optional_value("loopback", "[HOST[:PORT]]");
  command.option("--lend", arguments.lend_mib, "--server: MiB of memory to lend (default 1024)").needs(server);
  command
      .option("--share", arguments.shares,
              "--server: NAME=MIB of memory that all clients find by that name, and that outlives them and any switch "
              "(repeat it)")
      .one_at_a_time()
      .needs(server);
  command.flag("--once", arguments.once, "--server: end when the clients that came have gone").needs(server);
  return server;
}

int serve(const ServeArguments& arguments, const fabric::verbs::DeviceOptions& device, const std::string& token,
          bool json) {
  using namespace fabric;
  constexpr std::uint64_t kMib = 1 << 20;
  if (arguments.lend_mib == 0 || arguments.lend_mib > (std::uint64_t{1} << 40) / kMib) {
    throw std::invalid_argument(fmt::format("--lend {}: it must be 1 to 1048576 MiB", arguments.lend_mib));
  }
  std::vector<Share> shares;
  shares.reserve(arguments.shares.size());
  for (const std::string& share : arguments.shares) {
    shares.push_back(parse_share(share));
  }
  require_memory_for(shares);
  verbs::VerbsFabric fabric(device);
  Node& storage = fabric.add_node("storage");
  verbs::ServerOptions options{.token = token, .most_lent_bytes = arguments.lend_mib * kMib};
  if (!arguments.address.empty()) {
    options.address = arguments.address;
  }
  verbs::MemoryServer server(storage, options);
  std::vector<MemoryRegion> shared;
  for (const auto& [name, mib] : shares) {
    shared.push_back(storage.allocate(mib * kMib, Access::remote_all));
    try {
      server.share(name, shared.back());
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("--share {}={}: {}", name, mib, error.what()));
    }
  }
  server.start();
  if (json) {
    const nlohmann::ordered_json value = {
        {"device", fabric.device_name()}, {"address", server.address()}, {"lends_bytes", options.most_lent_bytes}};
    fmt::print("{}\n", text_of(value));
  } else {
    fmt::print("{} lends {} MiB at {}; Ctrl-C ends it\n", fabric.device_name(), arguments.lend_mib, server.address());
  }
  std::fflush(stdout);
  while (!interrupted()) {
    if (arguments.once && server.clients_so_far() > 0 && server.clients() == 0) {
      return kAsExpected;
    }
    if (const std::string failure = server.failure(); !failure.empty()) {
      throw std::runtime_error(failure);
    }
    constexpr auto kLookEvery = std::chrono::milliseconds(50);
    std::this_thread::sleep_for(kLookEvery);
  }
  return kInterrupted;
}

}  // namespace sidelatch::tools
