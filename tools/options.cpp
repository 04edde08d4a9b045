#include "options.h"

#include "commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace sidelatch::tools {

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::one_at_a_time() {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::hidden() {
  option_->group("");
  return *this;
}

Option Option::optional_value(const std::string& otherwise, const std::string& shown) {
  option_->expected(0, 1)->default_str(otherwise)->type_name(shown);
  return *this;
}

namespace {

template <class T>
inline constexpr bool kIsReal = false;
template <>
inline constexpr bool kIsReal<double> = true;
template <>
inline constexpr bool kIsReal<std::optional<double>> = true;

// Text that is no number. The command says what range a number must have.
std::string why_no_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error != std::errc::invalid_argument && end == text.data() + text.size();
  return is_number ? std::string() : fmt::format("{}: it must be a number, such as 0.5", text);
}

// The number that an option takes, if it takes an unsigned one.
template <class T>
struct UnsignedIn {
  using Type = std::conditional_t<std::is_unsigned_v<T>, T, void>;
};
template <class T>
struct UnsignedIn<std::optional<T>> : UnsignedIn<T> {};
template <class T>
struct UnsignedIn<std::vector<T>> : UnsignedIn<T> {};

template <class T>
std::optional<T> whole_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

template <class T>
std::string why_no_whole_number(const std::string& text) {
  return fmt::format("{}: it must be a whole number from 0 to {}", text, std::numeric_limits<T>::max());
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0, comma = 0; comma != std::string::npos; from = comma + 1) {
    comma = text.find(',', from);
    parts.push_back(text.substr(from, comma - from));
  }
  return parts;
}

}  // namespace

template <class T>
Option Command::option(const std::string& name, T& into, const std::string& help) {
  CLI::Option& option = *app_->add_option(name, into, help);
  using Number = typename UnsignedIn<T>::Type;
  if constexpr (!std::is_void_v<Number>) {
    option.check({[](const std::string& text) {
                    return whole_number<Number>(text) ? std::string() : why_no_whole_number<Number>(text);
                  },
                  "", "whole number"});
  } else if constexpr (kIsReal<T>) {
    option.check({why_no_number, "", "number"});
  }
  return Option(option);
}

template <class T>
Option Command::list(const std::string& name, std::vector<T>& into, const std::string& help) {
  const auto take = [name, &into](const std::vector<std::string>& arguments) {
    into.clear();
    for (const std::string& argument : arguments) {
      for (const std::string& part : split(argument)) {
        if (part.empty()) {
          throw CLI::ValidationError(name, fmt::format("'{}': a value between commas is empty", argument));
        }
        if constexpr (std::is_unsigned_v<T>) {
          const std::optional<T> number = whole_number<T>(part);
          if (!number) {
            throw CLI::ValidationError(name, why_no_whole_number<T>(part));
          }
          into.push_back(*number);
        } else {
          into.push_back(part);
        }
      }
    }
  };
  return Option(*app_->add_option_function<std::vector<std::string>>(name, take, help));
}

template Option Command::list(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::list(const std::string&, std::vector<std::uint64_t>&, const std::string&);

template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, std::uint32_t&, const std::string&);
template Option Command::option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::uint32_t>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::uint64_t>&, const std::string&);
template Option Command::option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);

Option Command::option_calling(const std::string& name, const std::function<void(const std::string&)>& take,
                               const std::string& help) {
  return Option(*app_->add_option_function<std::string>(name, take, help));
}

Option Command::flag(const std::string& name, bool& into, const std::string& help) {
  return Option(*app_->add_flag(name, into, help));
}

Command Command::subcommand(const std::string& name, const std::string& help) {
  app_->require_subcommand(1);
  return {*app_->add_subcommand(name, help), *chosen_};
}

void Command::runs(Action action) {
  app_->callback([action = std::move(action), chosen = chosen_] { *chosen = action; });
}

Program::Program(const std::string& description, const std::string& version)
    : app_(std::make_unique<CLI::App>(description)) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}

Program::~Program() = default;

Command Program::command(const std::string& name, const std::string& help) {
  return {*app_->add_subcommand(name, help), chosen_};
}

// CLI11 would only say that a subcommand is missing.
void Program::require_known_command(int argc, char** argv) const {
  constexpr std::array<std::string_view, 3> kOwn = {"-h", "--help", "--version"};
  const CLI::App* given = app_.get();
  std::string of;  // whose commands they are, if not the program's
  for (int i = 1;; ++i) {
    const auto commands = given->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty() || (i < argc && std::ranges::find(kOwn, argv[i]) != kOwn.end())) {
      return;
    }
    std::string names;
    given = nullptr;
    for (const CLI::App* command : commands) {
      given = i < argc && command->get_name() == argv[i] ? command : given;
      names += (names.empty() ? "" : ", ") + command->get_name();
    }
    if (i >= argc) {
      throw std::invalid_argument(fmt::format("give a command{}: the commands are {}", of, names));
    }
    if (given == nullptr && argv[i][0] == '-') {
      throw std::invalid_argument(
          fmt::format("{}: options follow a command{}; the commands are {}", argv[i], of, names));
    }
    if (given == nullptr) {
      throw std::invalid_argument(fmt::format("there is no command {}{}: the commands are {}", argv[i], of, names));
    }
    of = fmt::format(" of {}", given->get_name());
  }
}

namespace {

// CLI11's words for a value that is missing, and for one too many.
std::string in_plain_words(const CLI::ParseError& error) {
  std::string said = error.what();
  constexpr std::string_view kTwice = ": At Most 1 required but received ";
  if (const std::size_t at = said.find(kTwice); at != std::string::npos) {
    return fmt::format("{}: give it once, with one value; {} were given", said.substr(0, at),
                       said.substr(at + kTwice.size()));
  }
  constexpr std::string_view kMissing = ": 1 required ";
  if (const std::size_t at = said.find(kMissing); at != std::string::npos) {
    return fmt::format("{}: its value is missing", said.substr(0, at));
  }
  return said;
}

// An option whose value is empty, as that of a variable that was not set: the command would take it for one that was
// not given.
const CLI::Option* empty_option(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    const bool is_named = !option->get_lnames().empty() || !option->get_snames().empty();
    if (is_named && std::ranges::find(option->results(), "") != option->results().end()) {
      return option;
    }
  }
  for (const CLI::App* const command : app.get_subcommands()) {
    if (const CLI::Option* const found = empty_option(*command)) {
      return found;
    }
  }
  return nullptr;
}

}  // namespace

int Program::run(int argc, char** argv) {
  require_known_command(argc, argv);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a status of its own for each kind of mistake; here every mistake is 2, and --help is 0.
    const auto mistake = static_cast<CLI::ExitCodes>(error.get_exit_code());
    if (mistake == CLI::ExitCodes::Success) {
      app_->exit(error);  // prints what was asked for
      return kAsExpected;
    }
    say("{}\nRun with --help for more information.\n", in_plain_words(error));
    if (mistake == CLI::ExitCodes::ExtrasError && std::string_view(argv[1]) == "softnic") {
      say("Put -- before a command that has options: sidelatch softnic run -- COMMAND OPTION...\n");
    }
    return kBadInput;
  }
  if (const CLI::Option* const option = empty_option(*app_)) {
    say("{} has an empty value: give it one, or leave the option out.\n", option->get_name());
    return kBadInput;
  }
  return chosen_();
}

}  // namespace sidelatch::tools
