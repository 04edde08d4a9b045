// The command line of `sidelatch`: its commands, their options, and what they run. A wall before CLI11, whose header
// costs seconds in each file that includes it: only options.cpp does.
//
//   Program program("what it is", "sidelatch 1.0");
//   auto arguments = std::make_shared<Arguments>();
//   Command command = program.command("check", "what it does");
//   Option server = command.option("--server", arguments->server, "what it is");
//   command.option("--reads", arguments->reads, "what it is").excludes(server);
//   command.list("--sizes", arguments->sizes, "what they are, comma-separated");
//   command.runs([arguments] { return check(*arguments); });
//   return program.run(argc, argv);
//
// Guarantees: a command runs only if all of the command line is right. A variable keeps its value if its option is not
// given. A mistake in the program itself (an option twice in one command, say) throws what CLI11 throws, a
// std::exception.
//
// Command and Option are handles, as cheap to copy as a pointer. They are valid as long as the Program is. Not
// thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
class Option;
}  // namespace CLI

namespace sidelatch::tools {

/// What a command does; returns the exit status.
using Action = std::function<int()>;

/// One option of a command. Each function returns the option itself, so that they can be chained.
class Option {
 public:
  /// The command line is wrong without it.
  Option required();
  /// Of a vector: it takes one value each time that it is given, so that an argument may follow.
  Option one_at_a_time();
  /// It may be given only together with the other one.
  Option needs(Option other);
  /// It and the other one may not be given together.
  Option excludes(Option other);
  /// The help does not show it.
  Option hidden();
  /// Its value may be left out, and is `otherwise` then. The help shows the value as `shown`.
  Option optional_value(const std::string& otherwise, const std::string& shown);

 private:
  friend class Command;
  explicit Option(CLI::Option& option) : option_(&option) {}

  CLI::Option* option_;
};

/// One command of the program, or of another command.
class Command {
 public:
  /// A name without dashes is that of an argument without one. `into` must live until the program has run. T is a
  /// number, a text, an optional or a vector; options.cpp names the types for which it is built. An unsigned number
  /// must be given in digits, and fit T: CLI11 alone would wrap a negative one around, and clamp a large one.
  template <class T>
  Option option(const std::string& name, T& into, const std::string& help);
  /// An option with several values in one argument, with commas between them; none may be empty. T is a text or a
  /// number.
  template <class T>
  Option list(const std::string& name, std::vector<T>& into, const std::string& help);
  /// An option whose value goes to a function, before the command runs.
  Option option_calling(const std::string& name, const std::function<void(const std::string&)>& take,
                        const std::string& help);
  /// An option without a value: true if it is given. `into` must live until the program has run.
  Option flag(const std::string& name, bool& into, const std::string& help);
  /// Adds a command of this command. Whoever gives this command must also give exactly one of its own.
  Command subcommand(const std::string& name, const std::string& help);
  /// What the command does if it is the one that is given.
  void runs(Action action);

 private:
  friend class Program;
  Command(CLI::App& app, Action& chosen) : app_(&app), chosen_(&chosen) {}

  CLI::App* app_;
  Action* chosen_;  // the Program's
};

/// The program: it has --help and --version, and exactly one of its commands must be given.
class Program {
 public:
  /// `version` is all that --version prints.
  Program(const std::string& description, const std::string& version);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Adds a command.
  Command command(const std::string& name, const std::string& help);

  /// Reads the command line and runs the command that it gives. Returns the command's exit status; kAsExpected after
  /// --help and --version, kBadInput after a message about a wrong option. Throws std::invalid_argument, which names
  /// all commands, for an unknown command or none, also of a command that has commands; and what the command throws.
  [[nodiscard]] int run(int argc, char** argv);

 private:
  void require_known_command(int argc, char** argv) const;

  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace sidelatch::tools
