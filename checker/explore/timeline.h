// Timeline: the steps of a trace as rows of a table, with a column for each client, NIC and line of memory.
#pragma once

#include <sidelatch/explore/check.h>

#include <cstddef>
#include <string>
#include <vector>

namespace sidelatch::explore {

struct Timeline {
  enum class Lane : unsigned char { client, nic, line };
  struct Column {
    std::string title;
    Lane lane;
  };
  struct Row {
    std::size_t actor = 0;  // its column
    std::string text;
    std::size_t line = 0;  // of the memory that it touches; 0 if none, as column 0 is an actor's
    std::string words;
    std::string rule;
    std::string note;
    bool is_change = false;  // of that memory
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
};

[[nodiscard]] Timeline timeline_of(const Violation& violation);

}  // namespace sidelatch::explore
