// A zero-sided flow between processes that know only an address: the switch, producers and consumers join and leave as
// they like. Each unit has a software NIC with a cable to the switch; on a machine with an RDMA device it uses that
// one.
//
//   flow_join                                         a switch, a producer and a consumer, and 20 000 items
//   flow_join switch NAME [PRODUCERS [CONSUMERS]]     prints its address; port I has the cable shm:NAME-I
//   flow_join push ADDRESS PORT ITEMS [ITEM_BYTES]    by: sidelatch softnic run --wire switch:NAME-PORT,10.9.0.N -- ...
//   flow_join pop ADDRESS PORT [ITEM_BYTES]
#include <sidelatch/flows/nic/flow_host.h>
#include <sidelatch/flows/nic/flow_unit.h>
#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

using namespace sidelatch;

namespace {

constexpr std::uint32_t kItemBytes = 64;
constexpr std::uint32_t kItems = 20'000;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

// Below is all that a process does to push to a flow, or to pop from one.

void push(const std::string& address, std::uint16_t port, std::uint32_t items, std::uint32_t item_bytes) {
  flows::FlowProducer producer({.address = address, .port = port, .shape = {.slots = 256, .item_bytes = item_bytes}});
  say("the flow has begun");
  std::vector<std::byte> item(item_bytes);
  for (std::uint32_t i = 0; i < items; ++i) {
    std::memcpy(item.data(), &i, sizeof i);
    producer.push(item);
  }
  producer.end();
  say(fmt::format("{} items were delivered", items));
}

void pop(const std::string& address, std::uint16_t port, std::uint32_t item_bytes) {
  flows::FlowConsumer consumer({.address = address, .port = port, .shape = {.slots = 256, .item_bytes = item_bytes}});
  say("the flow has begun");
  std::vector<std::byte> item(item_bytes);
  std::uint32_t items = 0;
  while (consumer.pop(item)) {
    ++items;
  }
  say(fmt::format("{} items came", items));
}

// And this declares the flow, in the process of the switch.

p4::WiredSwitchOptions cables(const std::string& name, std::uint32_t count) {
  p4::WiredSwitchOptions options;
  for (std::uint32_t i = 0; i < count; ++i) {
    options.ports.push_back({.number = static_cast<std::uint16_t>(i), .wire = fmt::format("shm:{}-{}", name, i)});
  }
  return options;
}

flows::FlowHostOptions declared(std::uint32_t producers, std::uint32_t consumers) {
  return {.producers = producers,
          .consumers = consumers,
          .item_bytes = kItemBytes,
          .flow = {.kind = flows::FlowKind::balance, .most_retries = 40}};
}

void serve(const std::string& name, std::uint32_t producers, std::uint32_t consumers) {
  p4::WiredSwitch device(flows::zero_sided_program(), cables(name, producers + consumers));
  flows::FlowSwitch control(device.device(), {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 9, 1, 0}});
  flows::FlowHost host(device, control, declared(producers, consumers));
  say(fmt::format("the flow is at {}", host.address()));
  while (host.serve(std::chrono::milliseconds(100))) {
  }
  say(host.state().is_broken ? "a unit was lost" : "the flow has ended");
}

// This program again, as a unit whose NIC has a cable to the switch.
pid_t start_unit(const std::string& name, std::uint32_t port, std::vector<std::string> what) {
  const pid_t unit = fork();
  if (unit == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    softnic::set_environment({.wire = fmt::format("switch:{}-{},10.9.0.{}", name, port, port + 1)});
    std::vector<char*> arguments(what.size() + 1);
    std::ranges::transform(what, arguments.begin(), [](std::string& word) { return word.data(); });
    execv("/proc/self/exe", arguments.data());
    _exit(1);
  }
  return unit;
}

int run_all(const std::string& program) {
  const std::string name = fmt::format("flow-join-{}", getpid());
  p4::WiredSwitch device(flows::zero_sided_program(), cables(name, 2));
  flows::FlowSwitch control(device.device(), {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 9, 1, 0}});
  flows::FlowHost host(device, control, declared(1, 1));
  const std::string address = host.address();
  start_unit(name, 0, {program, "push", address, "0", std::to_string(kItems)});
  start_unit(name, 1, {program, "pop", address, "1"});
  bool is_right = true;
  for (std::uint32_t units = 2; units > 0;) {
    host.serve(std::chrono::milliseconds(10));
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0) {
      --units;
      is_right = is_right && status == 0;
    }
  }
  return is_right ? 0 : 1;
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> words(values, values + count);
  const auto number = [&](std::size_t at, std::uint32_t otherwise) {
    return at < words.size() ? static_cast<std::uint32_t>(std::stoul(words[at])) : otherwise;
  };
  try {
    if (count == 1) {
      return run_all(words[0]);
    }
    if (words[1] == "switch") {
      serve(words.at(2), number(3, 1), number(4, 1));
    } else if (words[1] == "push") {
      push(words.at(2), static_cast<std::uint16_t>(number(3, 0)), number(4, kItems), number(5, kItemBytes));
    } else {
      pop(words.at(2), static_cast<std::uint16_t>(number(3, 0)), number(4, kItemBytes));
    }
    return 0;
  } catch (const std::exception& error) {
    say(error.what());
    return 1;
  }
}
