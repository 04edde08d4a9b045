// A trace of a program of a user's own is kept in a file, run again, and drawn.
#include <sidelatch/explore/trace_file.h>

#include "checking.h"
#include "clients.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

Task<void> write_saved_lines(Client* client, Store* store) {
  client->set(0, 1);
  client->set(1, 1);
  co_await client->qp->write(client->lines(0, 2), store->lines(0, 2));
}

Task<void> read_saved_lines(Client* client, Store* store, bool both) {
  co_await client->qp->read(client->lines(0, 2), store->lines(0, 2));
  client->world->require(!both || client->value(0) == client->value(1), "\"torn\" & <old>");
}

Program saved_program(bool requires_both) {
  return [requires_both](World& world) {
    auto& store = world.make<Store>(world);
    auto& writer = world.make<Client>(world, store, "writer");
    auto& reader = world.make<Client>(world, store, "reader");
    world.spawn(*writer.node, write_saved_lines(&writer, &store));
    world.spawn(*reader.node, read_saved_lines(&reader, &store, requires_both));
  };
}

class TraceFile : public ::testing::Test {
 protected:
  TraceFile() : file_(std::filesystem::temp_directory_path() / fmt::format("sidelatch-trace-{}.json", ::getpid())) {}
  ~TraceFile() override { std::filesystem::remove(file_); }
  void save() {
    const Verdict verdict = check(saved_program(true), options_);
    ASSERT_TRUE(verdict.violation);
    violation_ = *verdict.violation;
    save_trace(file_, violation_, options_, "two lines");
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(load_trace(file_));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path file_;
  Options options_ = under(Preset::spec);
  Violation violation_;
};

TEST_F(TraceFile, LeadsToTheViolationAgain) {
  options_.rules.atom = 32;
  save();
  const SavedTrace saved = load_trace(file_);
  EXPECT_EQ(saved.program, "two lines");
  EXPECT_EQ(saved.kind, Kind::assertion);
  EXPECT_EQ(saved.what, violation_.what);
  EXPECT_EQ(saved.options.rules, options_.rules);
  EXPECT_EQ(saved.choices, violation_.choices);
  const Verdict again = replay_trace(saved_program(true), file_);
  ASSERT_TRUE(again.violation);
  EXPECT_EQ(to_text(*again.violation), to_text(violation_));
}

// An exception of the program may name a file in Latin-1.
TEST_F(TraceFile, KeepsAViolationWhoseWordsAreNotUtf8) {
  save();
  violation_.what = "caf\xE9";
  save_trace(file_, violation_, options_, "two lines");
  const SavedTrace saved = load_trace(file_);
  EXPECT_EQ(saved.what, "caf\xEF\xBF\xBD");
  EXPECT_EQ(saved.choices, violation_.choices);
}

TEST_F(TraceFile, TellsThatAViolationIsGone) {
  save();
  EXPECT_EQ(replay_trace(saved_program(false), file_).outcome, Outcome::bounded);
}

TEST_F(TraceFile, ThatIsNoneIsNamedWithTheReason) {
  EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr(file_.string()), HasSubstr("cannot be read")));
  write("{");
  EXPECT_THAT(refusal(), HasSubstr("it is no trace"));
  write("{}");
  EXPECT_THAT(refusal(), HasSubstr("program"));
  write(R"({"program": "x", "rules": {"atom": "7"}})");
  EXPECT_THAT(refusal(), HasSubstr("atom"));
  write(R"({"program": "x", "rules": {}, "retries": -1})");
  EXPECT_THAT(refusal(), HasSubstr("retries"));
  write(R"({"program": "x", "rules": {}, "retries": 2, "violation": {"kind": "bad luck", "what": "x"}})");
  EXPECT_THAT(refusal(), HasSubstr("bad luck"));
}

TEST_F(TraceFile, ThatCannotBeWrittenIsNamed) {
  EXPECT_THROW(save_trace("/no/such/folder/trace.json", violation_, options_, "x"), std::runtime_error);
}

// ---- Pictures.

// Whether each element is closed, in order. Attributes have no '<' or '>'.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) {
      return false;
    }
    std::string tag = xml.substr(at + 1, end - at - 1);
    const bool is_empty = tag.ends_with('/');
    const bool is_end = tag.starts_with('/');
    tag = tag.substr(is_end ? 1 : 0, tag.find_first_of(" /", 1) - (is_end ? 1 : 0));
    if (is_end) {
      if (open.empty() || open.back() != tag) {
        return false;
      }
      open.pop_back();
    } else if (!is_empty) {
      open.push_back(tag);
    }
  }
  return open.empty();
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(TracePicture, HasALaneForEachActorAndLineAndAPlaceForEachStep) {
  const Verdict verdict = check(saved_program(true), under(Preset::observed));
  ASSERT_TRUE(verdict.violation);
  const std::string svg = to_svg(*verdict.violation, "two lines <1>");
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_FALSE(is_well_formed(svg.substr(0, svg.size() - 8)));  // this test can fail
  for (const char* title : {"writer", "reader", "NIC of writer", "NIC of reader", "line 0x1000", "line 0x1040"}) {
    EXPECT_THAT(svg, HasSubstr(fmt::format(">{}</text>", title)));
  }
  EXPECT_EQ(count_of(svg, "class=\"lane "), 6);
  EXPECT_EQ(count_of(svg, "class=\"step\""), verdict.violation->trace.size());
  const auto touching =
      std::ranges::count_if(verdict.violation->trace, [](const TraceStep& step) { return !step.target.empty(); });
  EXPECT_EQ(count_of(svg, "class=\"words\""), static_cast<std::size_t>(touching));
  EXPECT_THAT(svg, HasSubstr("&quot;torn&quot; &amp; &lt;old&gt;"));
  EXPECT_THAT(svg, HasSubstr("two lines &lt;1&gt;"));
}

}  // namespace
}  // namespace sidelatch::explore
