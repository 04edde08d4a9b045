// Programs that the build has compiled to C++ do what the interpreter does with the same source.
#include "stained_program.h"
#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/stf.h>
#include <sidelatch/p4/switch.h>

#include <p4/corpus.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::p4 {
namespace {

struct CompiledProgramOfCorpus {
  std::string name;
  std::shared_ptr<const Program> (*make)();
};

#define P4_PROGRAM(name, function) CompiledProgramOfCorpus{name, &programs::function},
const CompiledProgramOfCorpus kPrograms[] = {
#include <p4/corpus.inc>
};
#undef P4_PROGRAM

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Compiled : public testing::TestWithParam<CompiledProgramOfCorpus> {
 protected:
  [[nodiscard]] static std::filesystem::path folder() { return in_source_tree("tests/p4/corpus"); }
};

TEST_P(Compiled, PacketsLeaveAsExpected) {
  const StfResult result = run_stf(GetParam().make(), contents(folder() / (GetParam().name + ".stf")), GetParam().name);
  EXPECT_GT(result.expected, 0U);
  for (const std::string& failure : result.failures) {
    ADD_FAILURE() << failure;
  }
}

TEST_P(Compiled, PacketsDoNotDependOnThoseBefore) {
  const StfResult result = run_stf(std::make_shared<StainedProgram>(GetParam().make()),
                                   contents(folder() / (GetParam().name + ".stf")), GetParam().name);
  EXPECT_GT(result.expected, 0U);
  for (const std::string& failure : result.failures) {
    ADD_FAILURE() << failure;
  }
}

// Packets of a test as templates: a random packet with few bytes changed gets further into a program.
std::vector<std::vector<std::byte>> packets_of(const std::filesystem::path& test) {
  std::vector<std::vector<std::byte>> packets;
  std::istringstream lines(contents(test));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    std::string digits;
    if (!(words >> word) || word != "packet" || !(words >> word)) {
      continue;
    }
    while (words >> word) {
      digits += word;
    }
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    }
    packets.push_back(std::move(bytes));
  }
  return packets;
}

TEST_P(Compiled, AgreesWithTheInterpreterOnRandomPackets) {
  Switch compiled(GetParam().make());
  Switch interpreted(compile_file(folder() / (GetParam().name + ".p4")));
  for (Switch* device : {&compiled, &interpreted}) {
    device->set_multicast_group(7, {{1, 3}, {2, 4}, {3, 3}});
    device->set_clone_session(5, {.port = 5, .group = std::nullopt});
    device->set_clone_session(6, {.port = 6, .group = 7});
  }
  const std::vector<std::vector<std::byte>> templates = packets_of(folder() / (GetParam().name + ".stf"));
  ASSERT_FALSE(templates.empty());
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> packet = templates[random() % templates.size()];
    for (unsigned changes = random() % 4; changes > 0 && !packet.empty(); --changes) {
      packet[random() % packet.size()] = static_cast<std::byte>(random() % 2 == 0 ? random() % 32 : random() % 256);
    }
    if (random() % 8 == 0) {
      packet.resize(random() % 40);
    }
    for (Switch* device : {&compiled, &interpreted}) {
      device->set_time(static_cast<std::uint64_t>(i) * 1'000'000);
      device->receive(static_cast<std::uint16_t>(i % 4), packet);
      ASSERT_TRUE(device->run(10'000)) << "packet " << i;
    }
    while (true) {
      const auto a = compiled.departed();
      const auto b = interpreted.departed();
      ASSERT_EQ(a.has_value(), b.has_value()) << "packet " << i;
      if (!a) {
        break;
      }
      ASSERT_EQ(a->port, b->port) << "packet " << i;
      ASSERT_TRUE(std::ranges::equal(a->bytes, b->bytes)) << "packet " << i;
    }
  }
  EXPECT_EQ(compiled.state().registers, interpreted.state().registers);
  EXPECT_EQ(compiled.state().counters, interpreted.state().counters);
  for (std::size_t i = 0; i < kDrops; ++i) {
    EXPECT_EQ(compiled.drops(static_cast<Drop>(i)), interpreted.drops(static_cast<Drop>(i)))
        << name(static_cast<Drop>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Compiled, testing::ValuesIn(kPrograms),
                         [](const testing::TestParamInfo<CompiledProgramOfCorpus>& one) { return one.param.name; });

}  // namespace
}  // namespace sidelatch::p4
