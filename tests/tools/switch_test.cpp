// `sidelatch switch` as its users meet it: captures in and out, statistics, exit statuses, what it refuses, and a
// control file that changes while it runs. tests/softnic/verbs/switch_test.cpp sends traffic of RDMA through it.
#include "tests/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace sidelatch::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
namespace files = std::filesystem;

class SwitchProgram : public ::testing::Test {
 protected:
  SwitchProgram()
      : name_("test-tool-switch-" + std::to_string(::getpid())), folder_(files::path(::testing::TempDir()) / name_) {
    files::remove_all(folder_);
    files::create_directory(folder_);
  }
  ~SwitchProgram() override {
    if (process_ != 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    files::remove_all(folder_);
  }

  [[nodiscard]] std::string in(const std::string& file) const { return folder_ / file; }
  void write(const std::string& file, const std::string& text) const { std::ofstream(in(file)) << text; }
  [[nodiscard]] std::string read(const std::string& file) const {
    std::ifstream text(in(file), std::ios::binary);
    return {std::istreambuf_iterator<char>(text), {}};
  }

  void start(const std::vector<std::string>& more) {
    std::vector<std::string> command{program_path(), "switch"};
    command.insert(command.end(), more.begin(), more.end());
    command.push_back(in_source_tree("p4/l2_l3.p4"));
    std::vector<char*> arguments;
    for (std::string& word : command) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, in("out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, in("err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ASSERT_EQ(::posix_spawn(&process_, program_path(), &actions, nullptr, arguments.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run(const std::vector<std::string>& more) {
    start(more);
    return wait();
  }
  // The switch says on standard error what it has done.
  void await(const std::string& text) const {
    while (read("err").find(text) == std::string::npos) {
      ASSERT_EQ(::waitpid(process_, nullptr, WNOHANG), 0) << read("err");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  [[nodiscard]] std::string shm(int port) const {
    return std::to_string(port) + "=shm:" + name_ + std::to_string(port);
  }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  std::string name_;
  files::path folder_;
  pid_t process_ = 0;
};

// A capture with times in microseconds, as tcpdump writes it on this machine.
std::string capture_of(const std::vector<std::string>& frames) {
  std::string text;
  const auto word = [&text](std::uint32_t value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const std::uint32_t value : {0xa1b2c3d4U, 0x00040002U, 0U, 0U, 65535U, 1U}) {
    word(value);
  }
  for (std::uint32_t i = 0; i < frames.size(); ++i) {
    word(10 + i);
    word(5);
    word(static_cast<std::uint32_t>(frames[i].size()));
    word(static_cast<std::uint32_t>(frames[i].size()));
    text += frames[i];
  }
  return text;
}

std::string frame_to(char last) {
  return std::string("\x02\x53\x0a\x00\x00", 5) + last + std::string("\x02\x53\x0a\x00\x00\x09\x88\xb5payload!", 16);
}

constexpr const char* kControl = R"({"tables": {"switching": {"entries": [
  {"keys": ["02:53:0a:00:00:02"], "action": "forward", "arguments": [2]}]}}, "counters": ["received"]})";

TEST_F(SwitchProgram, ForwardsCapturesAndEnds) {
  write("in.pcap", capture_of({frame_to(2), frame_to(3), frame_to(2)}));
  write("control.json", kControl);
  EXPECT_EQ(run({"--port", "1=pcap:" + in("in.pcap"), "--port", "2=pcap:," + in("out.pcap"), "--control",
                 in("control.json"), "--pcap", in("all.pcap"), "--json"}),
            0)
      << read("err");
  const auto json = nlohmann::json::parse(read("out"));
  EXPECT_EQ(json["ports"][0]["packets_in"], 3);
  EXPECT_EQ(json["ports"][1]["packets_out"], 2);
  EXPECT_EQ(json["ports"][1]["bytes_out"], 44);
  EXPECT_EQ(json["drops"]["ingress"], 1);
  EXPECT_EQ(json["counters"]["In.received"][0]["packets"], 3);
  const std::string out = read("out.pcap");
  ASSERT_EQ(out.size(), 24U + 2 * (16 + 22));
  EXPECT_EQ(out.substr(24 + 16, 22), frame_to(2));
  EXPECT_EQ(read("all.pcap").size(), 24U + 5 * (16 + 22));
}

TEST_F(SwitchProgram, EndsWithStatisticsAtASignal) {
  for (const auto& [signal, status] : {std::pair(SIGTERM, 0), std::pair(SIGINT, 130)}) {
    start({"--port", shm(1)});
    await("the switch is up");
    ::kill(process(), signal);
    EXPECT_EQ(wait(), status);
    EXPECT_THAT(read("out"), AllOf(HasSubstr("packets in"), HasSubstr("drops in the switch: none")));
  }
}

// The pipe has no reader and no packets; what is watched is what the control file does.
TEST_F(SwitchProgram, AControlFileIsReadAgainWholeOrNotAtAll) {
  write("control.json", kControl);
  start({"--port", shm(1), "--port", shm(2), "--control", in("control.json"), "--json"});
  await("the switch is up");
  write("control.json",
        R"({"tables": {"switching": {"entries": [{"keys": ["zebra"], "action": "drop"}]}}, "counters": []})");
  ::kill(process(), SIGHUP);
  await("\"zebra\" is no value");
  await("nothing has changed");
  write("control.json", R"({"tables": {}})");
  ::kill(process(), SIGHUP);
  await("control.json is in force");
  ::kill(process(), SIGTERM);
  EXPECT_EQ(wait(), 0);
  EXPECT_THAT(nlohmann::json::parse(read("out"))["counters"], IsEmpty());  // of the second file
}

TEST_F(SwitchProgram, WrongInputIsOneSentenceAndStatusTwo) {
  write("control.json", R"({"tables": {"switching": {"entries": [{"keys": ["0x1ffffffffffff"], "action": "drop"}]}}})");
  write("unknown.json", R"({"tables": {"swatching": {}}})");
  write("empty.json", "{}");
  write("port.json", R"({"multicast": {"1": [7]}})");
  struct Wrong {
    std::vector<std::string> arguments;
    std::string text;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {{}, "--port"},
           {{"--port", "shm:left"}, "has no number"},
           {{"--port", "1=dove:left"}, "this is no wire: a port is NUMBER=shm:NAME"},
           {{"--port", shm(1), "--port", "1=shm:other"}, "port 1 is given twice"},
           {{"--port", shm(1), "--control", in("none.json")}, "none.json"},
           {{"--port", shm(1), "--control", in("control.json")},
            "control.json: /tables/switching/entries/0: table In.switching: the key"},
           {{"--port", shm(1), "--control", in("unknown.json")}, "no table named swatching; there are: In."},
           {{"--port", shm(1), "--control", in("port.json")}, "the switch has no port 7; it has 1"},
           {{"--port", "1=pcap:" + in("none.pcap")}, "none.pcap"},
           {{"--port", "1=pcap:" + in("some.pcap") + "," + in("some.pcap")}, "these are one file"},
           {{"--port", shm(1), "--control", in("empty.json"), "--pcap", in("empty.json")},
            "empty.json is read before the switch begins"},
           {{"--port", shm(1), "--loss", "2"}, "loss is 2: a chance is a number from 0 to 1"}}) {
    EXPECT_EQ(run(wrong.arguments), 2) << wrong.text;
    EXPECT_THAT(read("err"), HasSubstr(wrong.text));
    EXPECT_THAT(read("out"), IsEmpty());
  }
}

TEST_F(SwitchProgram, AProgramWithAMistakeIsRefusedAtItsPlace) {
  write("bad.p4", "#include <core.p4>\n#include <v1model.p4>\nheader h { bit<7> a; oops }\n");
  const std::string command = std::string(program_path()) + " switch " + in("bad.p4") + " --port " + shm(1) + " 2>" +
                              in("err") + " >" + in("out");
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(read("err"), StartsWith(in("bad.p4") + ":3:"));
}

// They are read, too. None of them is in the command.
TEST_F(SwitchProgram, NoCaptureOverwritesAnIncludedFile) {
  files::create_directory(in("parts"));
  write("parts/inner.p4", "// nothing\n");
  write("parts/outer.p4", "#include \"inner.p4\"\n");
  write("in.pcap", capture_of({frame_to(2)}));
  std::ofstream(in("whole.p4")) << "#include \"parts/outer.p4\"\n"
                                << std::ifstream(in_source_tree("p4/l2_l3.p4")).rdbuf();
  for (const std::string& options : {" --port 1=pcap:" + in("in.pcap") + "," + in("parts/inner.p4"),
                                     " --port 1=pcap:" + in("in.pcap") + " --pcap " + in("parts/../parts/outer.p4"),
                                     " --port 1=pcap:" + in("in.pcap") + " --pcap " + in("whole.p4")}) {
    const std::string command =
        std::string(program_path()) + " switch " + in("whole.p4") + options + " 2>" + in("err") + " >" + in("out");
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << options;
    EXPECT_THAT(read("err"), AllOf(HasSubstr("is read before the switch begins"), HasSubstr("these are one file")));
  }
  EXPECT_EQ(read("parts/inner.p4"), "// nothing\n");
  EXPECT_EQ(read("parts/outer.p4"), "#include \"inner.p4\"\n");
  EXPECT_THAT(read("whole.p4"), StartsWith("#include"));
}

TEST_F(SwitchProgram, AWireThatTheMachineRefusesIsStatusThree) {
  EXPECT_EQ(run({"--port", "1=link:/proc/none/a,/proc/none/b"}), 3);
  EXPECT_THAT(read("err"), HasSubstr("/proc/none/a"));
}

TEST_F(SwitchProgram, AWireThatAnotherSwitchHasIsStatusThree) {
  const std::string link = "2=link:" + in("ours") + "," + in("theirs");
  start({"--port", shm(1), "--port", link});
  await("the switch is up");
  const pid_t first = process();
  EXPECT_EQ(run({"--port", shm(1)}), 3);
  EXPECT_THAT(read("err"), HasSubstr("another switch has this cable: end it first"));
  EXPECT_EQ(run({"--port", link}), 3);
  EXPECT_THAT(read("err"), HasSubstr("another program or wire uses this socket: end it or give another path"));
  EXPECT_TRUE(files::is_socket(in("ours")));
  ::kill(first, SIGKILL);
  ::waitpid(first, nullptr, 0);
  start({"--port", shm(1), "--port", link});
  await("the switch is up");
}

}  // namespace
}  // namespace sidelatch::tools
