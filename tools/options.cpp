#include "options.h"

#include "commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::tools {

Option Option::required() {
  option_->required();
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

Option Option::whole_number() {
  option_->check({[](const std::string& text) -> std::string {
                    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
                    return digits ? "" : fmt::format("{}: it must be a whole number, 0 or more", text);
                  },
                  "", "whole number"});
  return *this;
}

Option Option::delimiter(char between) {
  option_->delimiter(between);
  return *this;
}

Option Option::optional_value(const std::string& otherwise, const std::string& shown) {
  option_->expected(0, 1)->default_str(otherwise)->type_name(shown);
  return *this;
}

template <class T>
Option Command::option(const std::string& name, T& into, const std::string& help) {
  return Option(*app_->add_option(name, into, help));
}

template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, std::uint32_t&, const std::string&);
template Option Command::option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::uint32_t>&, const std::string&);
template Option Command::option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::uint64_t>&, const std::string&);

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
  app_->failure_message(CLI::FailureMessage::simple);
}

Program::~Program() = default;

Command Program::command(const std::string& name, const std::string& help) {
  return {*app_->add_subcommand(name, help), chosen_};
}

// CLI11 would only say that a subcommand is missing.
void Program::require_known_command(int argc, char** argv) const {
  if (argc < 2 || argv[1][0] == '-') {
    return;
  }
  std::string names;
  for (const CLI::App* command : std::as_const(*app_).get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) {
      return;
    }
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  throw std::invalid_argument(fmt::format("there is no command {}: the commands are {}", argv[1], names));
}

int Program::run(int argc, char** argv) {
  require_known_command(argc, argv);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a status of its own for each kind of mistake; here every mistake is 2, and --help is 0.
    const int status = app_->exit(error);
    return status == 0 ? kAsExpected : kBadInput;
  }
  return chosen_();
}

}  // namespace sidelatch::tools
