// Source files of a P4 program, places in them, and errors that name a place.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::p4 {

/// A place in a source file; lines and columns count from 1. Line 0: no place.
struct Location {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

/// Thrown by every stage of the compiler; compile() turns it into a CompileError with the source line.
struct Failure {
  Location at;
  std::string message;
};

struct Warning {
  Location at;
  std::string message;
};

[[noreturn]] inline void fail(Location at, std::string message) { throw Failure{at, std::move(message)}; }
[[noreturn]] inline void unsupported(Location at, const std::string& what) { fail(at, "unsupported: " + what); }

class Sources {
 public:
  /// Returns the number of the file. A byte order mark of UTF-8 is no part of its text.
  std::uint32_t add(std::string name, std::string text);
  [[nodiscard]] const std::string& name(std::uint32_t file) const { return files_[file].name; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(files_.size()); }
  [[nodiscard]] std::string_view text(std::uint32_t file) const { return files_[file].text; }
  /// The line without its end.
  [[nodiscard]] std::string_view line(Location at) const;
  /// "FILE:LINE:COLUMN".
  [[nodiscard]] std::string place(Location at) const;
  /// "FILE:LINE:COLUMN: KIND: MESSAGE", the source line, and a caret below the column. Of a long line
  /// the part around the column; control characters are shown as '?'.
  [[nodiscard]] std::string describe(Location at, std::string_view kind, std::string_view message) const;

 private:
  struct File {
    std::string name;
    std::string text;
  };
  std::deque<File> files_;
};

}  // namespace sidelatch::p4
