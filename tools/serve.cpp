#include "serve.h"

#include "commands.h"
#include "json_text.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

constexpr std::uint64_t kMostMib = std::uint64_t{1} << 20;

// "objects=64".
std::pair<std::string, std::uint64_t> parse_share(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::uint64_t mib = 0;
  const char* const end = text.data() + text.size();
  const char* const begin = equals == std::string::npos ? end : text.data() + equals + 1;
  const auto [next, error] = std::from_chars(begin, end, mib);
  if (error != std::errc{} || next != end || equals == 0 || mib == 0 || mib > kMostMib) {
    throw std::invalid_argument(
        fmt::format("--share {}: it is NAME=MIB, as in objects=64; 1 to {} MiB", text, kMostMib));
  }
  return {text.substr(0, equals), mib};
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
  verbs::VerbsFabric fabric(device);
  Node& storage = fabric.add_node("storage");
  verbs::ServerOptions options{.token = token, .most_lent_bytes = arguments.lend_mib * kMib};
  if (!arguments.address.empty()) {
    options.address = arguments.address;
  }
  verbs::MemoryServer server(storage, options);
  std::vector<MemoryRegion> shared;
  for (const std::string& share : arguments.shares) {
    const auto [name, mib] = parse_share(share);
    shared.push_back(storage.allocate(mib * kMib, Access::remote_all));
    try {
      server.share(name, shared.back());
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("--share {}: {}", share, error.what()));
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
