// What the control plane and the packets change in a program: entries of tables, registers and counters.
//
// A State is a plain value: copying it copies everything, two states with the same contents are equal and have the same
// hash. A pass of a packet allocates nothing.
//
// Thread-safety: as that of a container. The switch reads and writes it while a packet is in the pipeline.
#pragma once

#include <sidelatch/p4/bits.h>
#include <sidelatch/p4/program.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sidelatch::p4 {

/// A mistake of the control plane; says what exists.
class ControlError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A register or counter array, or the entries of a table, by this number.
using EntryHandle = std::uint32_t;

struct Count {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] bool operator==(const Count&) const = default;
};

class TableState {
 public:
  struct Row {
    EntryHandle handle = 0;
    std::vector<Match> keys;
    std::uint32_t action = 0;
    std::vector<U128> arguments;
    int priority = 0;
    unsigned prefix = 0;  ///< of the lpm key
    Count count;          ///< of a direct counter
    std::vector<ActionCall> group;

    /// What a packet with this hash of the selector's keys gets, if there is a group.
    [[nodiscard]] const ActionCall& chosen(std::uint64_t hash) const { return group[hash % group.size()]; }
  };

  explicit TableState(const TableInfo& info);

  /// Adds an entry. Throws ControlError for a wrong number of keys or arguments, for values that do not fit, for a key
  /// that is there already, a full table, or a table with constant entries.
  EntryHandle add(const Entry& entry);
  /// The same; the action by its name, or the end of it ("forward" for "ingress.forward").
  EntryHandle add(const std::vector<Match>& keys, std::string_view action, const std::vector<U128>& arguments = {},
                  int priority = 0);
  /// Gives an entry another action. Throws ControlError if there is none with this handle.
  void modify(EntryHandle handle, std::string_view action, const std::vector<U128>& arguments);
  void remove(EntryHandle handle);
  /// Removes all entries that the control plane may remove.
  void clear();
  void set_default(std::string_view action, const std::vector<U128>& arguments = {});

  /// What an entry's direct counter has counted; null if there is no such entry.
  [[nodiscard]] Count* count(EntryHandle handle) noexcept;

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  [[nodiscard]] std::uint32_t default_action() const { return default_action_; }
  [[nodiscard]] const std::vector<U128>& default_arguments() const { return default_arguments_; }

  /// The row that these keys match, or null.
  [[nodiscard]] Row* find(const U128* keys) noexcept;
  /// The row of the entry that was added with the keys and the priority of this one, or null.
  [[nodiscard]] const Row* same_entry(const Row& row) const noexcept;

  [[nodiscard]] std::size_t action_number(std::string_view action) const;
  void hash(std::uint64_t& into) const;
  [[nodiscard]] bool operator==(const TableState& other) const;

 private:
  enum class Search : std::uint8_t { exact, longest_prefix, priority };

  EntryHandle insert(const Entry& entry);
  void check(const Entry& entry) const;
  void check_arguments(std::size_t action, const std::vector<U128>& arguments) const;
  void index();
  void index_row(std::size_t row);
  void forget_row(std::size_t row);
  [[nodiscard]] std::size_t bucket_of(std::size_t row) const noexcept;
  [[nodiscard]] std::size_t home(const Row& row) const noexcept;
  [[nodiscard]] std::size_t next(std::size_t bucket) const noexcept { return (bucket + 1) & (buckets_.size() - 1); }
  [[nodiscard]] bool matches(const Row& row, const U128* keys) const noexcept;
  [[nodiscard]] std::size_t number_of(EntryHandle handle) const noexcept;
  [[nodiscard]] std::size_t row_of(EntryHandle handle) const;

  const TableInfo* info_;
  Search search_ = Search::exact;
  std::vector<Row> rows_;  // exact: in any order; else those to be tried first come first
  // Exact: row number + 1, or 0, by the keys' hash; who finds a bucket in use takes the next one.
  std::vector<std::uint32_t> buckets_;
  std::unordered_map<EntryHandle, std::uint32_t> numbers_;  // exact: of the rows
  std::uint32_t default_action_ = 0;
  std::vector<U128> default_arguments_;
  EntryHandle next_handle_ = 0;
};

class RegisterState {
 public:
  explicit RegisterState(const RegisterInfo& info);
  [[nodiscard]] std::size_t size() const { return size_; }
  /// 0 beyond the end.
  [[nodiscard]] U128 read(std::uint64_t index) const noexcept {
    if (index >= size_) {
      return 0;
    }
    return wide_ ? U128{words_[2 * index + 1]} << 64 | words_[2 * index] : U128{words_[index]};
  }
  /// Nothing beyond the end. A value is cut to the width of the register.
  void write(std::uint64_t index, U128 value) noexcept {
    if (index >= size_) {
      return;
    }
    if (wide_) {
      words_[2 * index] = static_cast<std::uint64_t>(value);
      words_[2 * index + 1] = static_cast<std::uint64_t>(value >> 64) & upper_;
    } else {
      words_[index] = static_cast<std::uint64_t>(value) & upper_;
    }
  }
  [[nodiscard]] const std::vector<std::uint64_t>& words() const { return words_; }
  [[nodiscard]] bool operator==(const RegisterState&) const = default;

 private:
  std::size_t size_;
  bool wide_;
  std::uint64_t upper_;  // the bits that count of an element's upper word
  std::vector<std::uint64_t> words_;
};

class State {
 public:
  /// The entries that the program gives; registers and counters 0. `info` must outlive the state and its copies.
  explicit State(const ProgramInfo& info);

  [[nodiscard]] const ProgramInfo& info() const { return *info_; }
  /// By its full name, or the end of it from a dot on. Throws ControlError if there is none, or more than one.
  [[nodiscard]] TableState& table(std::string_view name);
  [[nodiscard]] RegisterState& reg(std::string_view name);
  [[nodiscard]] std::vector<Count>& counter(std::string_view name);
  /// The number of what `name` names, among all names. Throws as table() does; `kind` is for the message.
  [[nodiscard]] static std::size_t find_name(const std::vector<std::string>& names, std::string_view name,
                                             std::string_view kind);

  /// The same for equal states. Counters do not count: they change nothing that a packet sees.
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] bool operator==(const State& other) const;

  // For programs.
  std::vector<TableState> tables;
  std::vector<RegisterState> registers;
  std::vector<std::vector<Count>> counters;

 private:
  const ProgramInfo* info_;
};

}  // namespace sidelatch::p4
