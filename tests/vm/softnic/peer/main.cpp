// roce_peer --rank 0|1 --control PATH|HOST:PORT [OPTION...] SCENARIO...
//
// One of two processes that exchange RoCE traffic over any device with plain libibverbs, and check every byte and every
// value (scenarios.h). Both get the same scenarios in the same order. Exit status: 0 for success, 1 for a failure (the
// reason is on standard error), 2 for wrong usage.
#include "scenarios.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace sidelatch::peer;

const std::map<std::string, void (*)(const Session&)> kScenarios = {
    {"send", send},       {"share", share},         {"notify", notify}, {"write", write}, {"read", read},
    {"atomics", atomics}, {"inline", send_inline},  {"chain", chain},   {"mix", mix},     {"datagrams", datagrams},
    {"refuse", refuse},   {"not-ready", not_ready}, {"vanish", vanish}};

struct Arguments {
  Options options;
  std::vector<std::string> scenarios;
};

Arguments parse(int count, char** values) {
  Arguments result;
  Options& options = result.options;
  for (int i = 1; i < count; ++i) {
    const std::string name = values[i];
    if (!name.starts_with("--")) {
      if (!kScenarios.contains(name)) {
        throw std::invalid_argument("no such scenario: " + name);
      }
      result.scenarios.push_back(name);
      continue;
    }
    if (++i == count) {
      throw std::invalid_argument(name + " needs a value");
    }
    const std::string value = values[i];
    if (name == "--rank") {
      options.rank = std::stoi(value);
    } else if (name == "--control") {
      options.control = value;
    } else if (name == "--device") {
      options.device = value;
    } else if (name == "--ip") {
      options.ip_version = std::stoi(value);
    } else if (name == "--mtu") {
      options.mtu = std::stoul(value);
    } else if (name == "--count") {
      options.count = std::stoul(value);
    } else if (name == "--seed") {
      options.seed = std::stoull(value);
    } else if (name == "--vanishing") {
      options.vanishing = std::stoi(value);
    } else if (name == "--timeout") {
      options.timeout = std::stoi(value);
    } else {
      throw std::invalid_argument("no such option: " + name);
    }
  }
  if (options.control.empty() || result.scenarios.empty() || (options.rank != 0 && options.rank != 1)) {
    throw std::invalid_argument("roce_peer --rank 0|1 --control PATH|HOST:PORT [OPTION...] SCENARIO...");
  }
  return result;
}

}  // namespace

int main(int count, char** values) {
  std::string now = "start";
  try {
    const Arguments arguments = parse(count, values);
    Device device(arguments.options);
    Control control = Control::open(arguments.options.rank, arguments.options.control);
    const bool partner_is_rxe = control.exchange("devices are open", device.is_rxe());
    for (const std::string& scenario : arguments.scenarios) {
      now = scenario;
      const auto began = std::chrono::steady_clock::now();
      control.barrier(scenario);
      kScenarios.at(scenario)(
          {.control = control, .device = device, .options = arguments.options, .partner_is_rxe = partner_is_rxe});
      if (scenario != "vanish") {
        control.barrier("scenario done");
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      fmt::print("rank {}: {}: {:.1f} s\n", arguments.options.rank, scenario, took.count());
      std::fflush(stdout);
    }
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "roce_peer: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "roce_peer: {}: {}\n", now, error.what());
    return 1;
  }
  return 0;
}
