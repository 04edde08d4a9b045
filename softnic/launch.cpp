#include <sidelatch/softnic/launch.h>

#include "settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

namespace sidelatch::softnic {
namespace {

namespace files = std::filesystem;

constexpr const char* kLibrary = "libsidelatch-verbs.so";
constexpr const char* kLibraryVariable = "SIDELATCH_SOFTNIC_LIBRARY";
constexpr const char* kPreloadSeparators = ": ";  // ld.so(8)
// Only libsidelatch-verbs.so has this symbol.
constexpr const char* kMark = "sidelatch_softnic_version";

// Looks beside the program, as in a build folder, and in the installation folder.
files::path find_library() {
  if (const char* const given = ::getenv(kLibraryVariable)) {
    std::error_code ignored;
    if (!files::is_regular_file(given, ignored)) {
      throw LibraryError(fmt::format("{} is {}: there is no such file", kLibraryVariable, given));
    }
    return files::absolute(given);
  }
  std::error_code unknown;
  const files::path folder = files::read_symlink("/proc/self/exe", unknown).parent_path();
  const std::array<files::path, 4> places = {folder, folder / "../lib", folder / "../lib64",
                                             folder / "../lib/x86_64-linux-gnu"};
  std::vector<std::string> looked_in;
  for (const files::path& place : places) {
    if (files::exists(place / kLibrary)) {
      return files::canonical(place / kLibrary);
    }
    looked_in.push_back(place.lexically_normal().string());
  }
  throw LibraryError(fmt::format("{} is not in {}: build the target sidelatch_verbs, or name it by {}", kLibrary,
                                 fmt::join(looked_in, ", "), kLibraryVariable));
}

void set(const std::string& name, const std::string& value) {
  if (::setenv(name.c_str(), value.c_str(), 1) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot set " + name);
  }
}

// Passes every value through the parser of the environment, the only place that refuses values.
Settings settings_of(const LaunchOptions& options) {
  std::map<std::string, std::string, std::less<>> variables{
      {kVariables[0], options.wire},
      {kVariables[2], fmt::format("{}", options.seed)},
      {kVariables[3], fmt::format("{}", options.torn_bias)},
      {kVariables[4],
       fmt::format("loss={},duplication={},corruption={},reordering={},delay={},seed={}", options.loss,
                   options.duplication, options.corruption, options.reordering, options.delay, options.fault_seed)}};
  if (!options.order.empty()) {
    variables.emplace(kVariables[1], options.order);
  }
  if (!options.atomics.empty()) {
    variables.emplace(kVariables[6], options.atomics);
  }
  if (!options.pcap.empty()) {
    variables.emplace(kVariables[5], files::absolute(options.pcap).string());
  }
  constexpr SettingNames kOptions{
      .order = "--order", .seed = "--seed", .torn_bias = "--torn-bias", .atomics = "--atomics", .fault = "--"};
  return settings_from(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      kOptions);
}

// What is at that path. Throws SettingsError if this cannot be found out.
files::file_type file_type_at(std::string_view option, const files::path& path) {
  std::error_code error;
  const files::file_type type = files::status(path, error).type();
  if (type == files::file_type::none) {
    throw SettingsError(fmt::format("{}{}: {}", option, path.string(), error.message()));
  }
  return type;
}

// Found out now: the program itself may open the NIC late, or never.
void require_folders(const Settings& settings) {
  const auto require = [](std::string_view option, const files::path& path) {
    const files::path folder = files::absolute(path).parent_path();
    if (file_type_at(option, folder) != files::file_type::directory) {
      throw SettingsError(fmt::format("{}{}: there is no folder {}", option, path.string(), folder.string()));
    }
  };
  if (settings.capture) {
    require("--pcap ", *settings.capture);
  }
  if (const auto* const wire = std::get_if<roce::FolderWireOptions>(&settings.wire)) {
    constexpr std::string_view kOption = "--wire folder:";
    const files::path folder = (wire->folder / "").parent_path();  // without a slash at the end
    require(kOption, folder);
    const files::file_type type = file_type_at(kOption, folder);
    if (type != files::file_type::directory && type != files::file_type::not_found) {
      throw SettingsError(
          fmt::format("{}{}: this is a file; give a folder, or a name that is free", kOption, wire->folder.string()));
    }
    if (type == files::file_type::not_found) {
      // Not fmt::print(), which throws where stderr takes nothing.
      std::fputs(fmt::format("sidelatch: --wire folder:{}: this folder is new; programs that name another one are not "
                             "reached\n",
                             wire->folder.string())
                     .c_str(),
                 stderr);
    }
  }
}

std::string_view file_name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A sanitizer's runtime ends the program if anything is loaded before it.
bool is_sanitizer(std::string_view file_name) {
  constexpr std::array<std::string_view, 6> kRuntimes = {"libasan.so", "libtsan.so",   "libubsan.so",
                                                         "liblsan.so", "libhwasan.so", "libclang_rt."};
  return std::ranges::any_of(kRuntimes, [&](std::string_view runtime) { return file_name.starts_with(runtime); });
}

}  // namespace

std::string preloads(std::string_view others, const files::path& library) {
  std::string before;
  std::string after;
  for (std::size_t begin = 0; begin < others.size();) {
    const std::size_t end = std::min(others.find_first_of(kPreloadSeparators, begin), others.size());
    const std::string_view other = others.substr(begin, end - begin);
    begin = end + 1;
    if (other.empty() || file_name_of(other) == kLibrary) {
      continue;
    }
    if (is_sanitizer(file_name_of(other))) {
      before.append(other).append(" ");
    } else {
      after.append(" ").append(other);
    }
  }
  return before + library.string() + after;
}

void set_environment(const LaunchOptions& options) {
  const Settings settings = settings_of(options);
  require_folders(settings);
  const files::path library = find_library();
  // Else the loader would say so, and the program would find no device.
  if (library.string().find_first_of(kPreloadSeparators) != std::string::npos) {
    throw LibraryError(
        fmt::format("{} cannot be preloaded, because LD_PRELOAD separates names by colons and spaces: "
                    "name another place, or a link, by {}",
                    library.string(), kLibraryVariable));
  }
  if (settings.capture) {
    std::error_code error;
    // A device or a pipe of that name must not be removed: root could lose /dev/null.
    if (files::exists(*settings.capture, error) && !files::is_regular_file(*settings.capture, error)) {
      throw SettingsError(
          fmt::format("--pcap {}: this is no ordinary file, and only such a one is replaced: give another",
                      settings.capture->string()));
    }
    files::remove(*settings.capture, error);
    if (error) {
      throw SettingsError(
          fmt::format("cannot replace the capture {}: {}", settings.capture->string(), error.message()));
    }
  }
  for (const char* const name : kVariables) {
    ::unsetenv(name);  // set by a program around ours
  }
  for (const auto& [name, value] : environment_of(settings)) {
    set(name, value);
  }
  const char* const others = ::getenv("LD_PRELOAD");
  set("LD_PRELOAD", preloads(others == nullptr ? "" : others, library));
}

std::string describe_environment() {
  const Settings settings = settings_from([](const char* name) { return ::getenv(name); });
  std::string text = text_of(settings.wire);
  if (settings.order) {
    text += fmt::format(", order {}, seed {}", fabric::model::name(*settings.order), settings.seed);
  }
  if (settings.torn_bias != 0) {
    text += fmt::format(", torn bias {}", settings.torn_bias);
  }
  if (settings.atomics) {
    text += *settings.atomics == fabric::model::AtomicScope::global ? ", atomics glob" : ", atomics hca";
  }
  if (const std::string faults = text_of(settings.faults); !faults.empty()) {
    text += ", " + faults;
  }
  return text;
}

bool is_preloaded() noexcept { return ::dlsym(RTLD_DEFAULT, kMark) != nullptr; }

}  // namespace sidelatch::softnic
