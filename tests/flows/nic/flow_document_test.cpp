// The code of docs/flows.md, "Join a flow by its address": it compiles, and it is what the document says.
#include "tests/paths.h"

#include <sidelatch/flows/nic/flow_host.h>
#include <sidelatch/flows/nic/flow_unit.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace documented {

bool next(std::vector<std::byte>& item) { return item.empty(); }
void use(const std::vector<std::byte>& item) { EXPECT_TRUE(item.empty()); }

[[maybe_unused]] void run_switch() {
  p4::WiredSwitch device(zero_sided_program(), {.ports = {p4::parse_port("0=shm:a"), p4::parse_port("1=shm:b")}});
  FlowSwitch control(device.device(), {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 9, 1, 0}});
  FlowHost host(device, control, {.address = "10.0.0.9:18517", .item_bytes = 64});
  while (host.serve(std::chrono::milliseconds(100))) {
  }
}

[[maybe_unused]] void run_producer() {
  std::vector<std::byte> item(64);
  FlowProducer producer({.address = "10.0.0.9:18517", .port = 0, .shape = {.slots = 256, .item_bytes = 64}});
  while (next(item)) {
    producer.push(item);
  }
  producer.end();
}

[[maybe_unused]] void run_consumer() {
  std::vector<std::byte> item(64);
  FlowConsumer consumer({.address = "10.0.0.9:18517", .port = 1, .shape = {.slots = 256, .item_bytes = 64}});
  while (consumer.pop(item)) {
    use(item);
  }
}

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(in_source_tree(file)).rdbuf();
  return text.str();
}

std::string without_spaces(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '\n') {
      result += c;
    }
  }
  return result;
}

TEST(FlowDocument, ItsCodeIsCompiledAndShort) {
  const std::string page = text_of("docs/flows.md");
  const std::string own = without_spaces(text_of("tests/flows/nic/flow_document_test.cpp"));
  const std::size_t section = page.find("### Join a flow by its address");
  ASSERT_NE(section, std::string::npos);
  const std::size_t end = page.find("\n### ", section + 1);
  int blocks = 0;
  for (std::size_t at = page.find("```cpp\n", section); at < end; at = page.find("```cpp\n", at)) {
    at += 7;
    const std::string code = page.substr(at, page.find("```", at) - at);
    EXPECT_NE(own.find(without_spaces(code)), std::string::npos) << code;
    EXPECT_LT(std::count(code.begin(), code.end(), '\n'), 10) << code;
    ++blocks;
  }
  EXPECT_EQ(blocks, 3);
}

}  // namespace documented
}  // namespace
}  // namespace sidelatch::flows
