// The subcommands of `sidelatch`, one file each. A command adds its options to the program and sets the action.
#pragma once

#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::tools {

class Program;

// Exit statuses, the same for every command.
inline constexpr int kAsExpected = 0;
inline constexpr int kNotAsExpected = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kNoEnvironment = 3;  // or an output that cannot be written
inline constexpr int kInterrupted = 130;

void add_check(Program& program);
void add_bench(Program& program);
void add_explore(Program& program);
void add_litmus(Program& program);
void add_devices(Program& program);
void add_report(Program& program);
void add_softnic(Program& program);
void add_p4(Program& program);
void add_switch(Program& program);
void add_flow(Program& program);

/// Restarts this program with the software NIC preloaded, unless it already is. Throws as softnic::set_environment().
/// `given`: the options of the command line that are in `options`. Where `softnic run` has preloaded the NIC, its own
/// options hold, so each of these is a std::invalid_argument that names it.
void become_softnic(const softnic::LaunchOptions& options, const std::vector<std::string>& given = {});

/// The program's arguments as given, its name first.
[[nodiscard]] const std::vector<std::string>& command_line();

/// The datasheet in the folder that `check --out` fills.
inline constexpr const char* kSavedDatasheet = "check.json";

/// "[####    ]  done of all", equally long for every `done`.
[[nodiscard]] std::string progress_bar(std::size_t done, std::size_t all);

/// Set by Ctrl-C.
[[nodiscard]] const std::atomic<bool>& interrupted();

/// True if the stream is a terminal and colours are wanted (NO_COLOR is not set).
[[nodiscard]] bool on_terminal(int file_descriptor);

/// Prints to standard error. Never throws: a message that finds no place (a full disk, a closed stream) must not end a
/// switch or a server, nor hide an exit status.
void say_text(const std::string& text) noexcept;
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

/// Of the streams 0 to 2, opens those that are closed: else the next file or socket would get such a number, and what
/// is printed would go there. Reading finds nothing, standard output still refuses all, and standard error loses it. A
/// program that takes this one's place finds them closed again.
void keep_standard_streams_apart();

/// A file that may not grow (`ulimit -f`) is then an error that is told, and not the end of this process by SIGXFSZ.
void fail_writes_that_are_too_long();
/// As it was, for a program that takes this one's place.
void restore_limit_signal();

/// Prints the text to the terminal at standard error, over the `lines` of the last one. Returns its lines. What is too
/// long or too wide for the terminal is left out.
[[nodiscard]] std::size_t show_over(const std::string& text, std::size_t lines);

/// A bar and "done of all" on standard error, for work longer than two seconds, on a terminal only.
class Progress {
 public:
  /// `what` stands before the bar.
  explicit Progress(std::string what = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  /// May be called from any thread.
  void show(std::size_t done, std::size_t all);

 private:
  std::string what_;
  bool terminal_;
  std::int64_t started_ns_;
  std::atomic<bool> shown_{false};
};

/// Throws std::invalid_argument unless `seconds` of `--budget` is a number from 0, no limit, to 1e9: what is more does
/// not fit the clock.
void require_budget(double seconds);

/// The text of a file, without the byte order mark of UTF-8 that some editors put before it. Throws
/// std::invalid_argument that names it.
[[nodiscard]] std::string read_file(const std::string& path);
/// Throws std::invalid_argument with the file's name if it cannot be written. Call it before long work.
void require_writable(const std::string& path);
/// Throws std::invalid_argument if the ordinary file that `option` would write is also the `other` one, whose use `as`
/// says. Either may not be there yet.
void require_apart(const std::string& option, const std::string& file, const std::string& other, const std::string& as);
/// Throws std::invalid_argument with the file's name.
void write_file(const std::string& path, const std::string& text);
/// Saves, and then prints: where nobody reads what is printed (`| head`), the first print ends this process. If `save`
/// throws, the text is printed all the same, and then it throws what `save` threw.
void save_and_print(const std::function<void()>& save, const std::string& text);

}  // namespace sidelatch::tools
