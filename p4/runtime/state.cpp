#include <sidelatch/p4/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15;

void mix(std::uint64_t& hash, std::uint64_t word) noexcept {
  hash = (std::rotl(hash, 23) ^ word) * kMultiplier;
  hash ^= hash >> 29;
}

void mix_wide(std::uint64_t& hash, U128 value) noexcept {
  mix(hash, static_cast<std::uint64_t>(value));
  mix(hash, static_cast<std::uint64_t>(value >> 64));
}

bool same_match(const Match& a, const Match& b) { return a.value == b.value && a.mask == b.mask; }

// `value_of(i)` is the value of key i.
template <class ValueOf>
std::uint64_t hash_keys(const TableInfo& info, const ValueOf& value_of) noexcept {
  std::uint64_t hash = kMultiplier;
  for (std::size_t i = 0; i < info.keys.size(); ++i) {
    const U128 value = value_of(i);
    mix(hash, static_cast<std::uint64_t>(value));
    if (info.keys[i].width > 64) {
      mix(hash, static_cast<std::uint64_t>(value >> 64));
    }
  }
  return hash;
}

unsigned count_ones(U128 value) {
  return static_cast<unsigned>(std::popcount(static_cast<std::uint64_t>(value)) +
                               std::popcount(static_cast<std::uint64_t>(value >> 64)));
}

}  // namespace

std::string_view name(MatchKind kind) noexcept {
  switch (kind) {
    case MatchKind::exact:
      return "exact";
    case MatchKind::ternary:
      return "ternary";
    case MatchKind::lpm:
      return "lpm";
    case MatchKind::range:
      return "range";
    case MatchKind::optional:
      return "optional";
  }
  return "";
}

TableState::TableState(const TableInfo& info)
    : info_(&info),
      default_action_(static_cast<std::uint32_t>(info.default_action)),
      default_arguments_(info.default_arguments) {
  for (const KeyInfo& key : info.keys) {
    if (key.kind == MatchKind::lpm && search_ == Search::exact) {
      search_ = Search::longest_prefix;
    } else if (key.kind != MatchKind::exact && key.kind != MatchKind::lpm) {
      search_ = Search::priority;
    }
  }
  for (const Entry& entry : info.entries) {
    insert(entry);
  }
}

void TableState::check_arguments(std::size_t action, const std::vector<U128>& arguments) const {
  const ActionInfo& chosen = info_->actions.at(action);
  if (arguments.size() != chosen.parameters.size()) {
    throw ControlError(fmt::format("table {}: the action {} needs {} arguments, not {}", info_->name, chosen.name,
                                   chosen.parameters.size(), arguments.size()));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] > ones(chosen.parameters[i].width)) {
      throw ControlError(fmt::format("table {}: the argument {} of {} has {} bits; the value does not fit", info_->name,
                                     chosen.parameters[i].name, chosen.name, chosen.parameters[i].width));
    }
  }
}

void TableState::check(const Entry& entry) const {
  if (info_->constant_entries) {
    throw ControlError(fmt::format("table {}: its entries are constant", info_->name));
  }
  if (rows_.size() >= info_->size) {
    throw ControlError(fmt::format("table {}: it is full; its size is {}", info_->name, info_->size));
  }
  if (entry.keys.size() != info_->keys.size()) {
    throw ControlError(
        fmt::format("table {}: it has {} keys, not {}", info_->name, info_->keys.size(), entry.keys.size()));
  }
  for (std::size_t i = 0; i < entry.keys.size(); ++i) {
    const KeyInfo& key = info_->keys[i];
    const Match& match = entry.keys[i];
    const bool masked = key.kind != MatchKind::exact;
    if (match.value > ones(key.width) || (masked && match.mask > ones(key.width))) {
      throw ControlError(
          fmt::format("table {}: the key {} has {} bits; the value does not fit", info_->name, key.name, key.width));
    }
    if (key.kind == MatchKind::range && match.value > match.mask) {
      throw ControlError(fmt::format("table {}: the range of key {} is empty", info_->name, key.name));
    }
    const U128 rest = ~match.mask & ones(key.width);
    if (key.kind == MatchKind::lpm && (rest & (rest + 1)) != 0) {
      throw ControlError(fmt::format("table {}: the mask of the lpm key {} is no prefix", info_->name, key.name));
    }
  }
  if (!entry.group.empty() && !info_->has_selector) {
    throw ControlError(fmt::format("table {}: it has no action_selector, so an entry has one action", info_->name));
  }
  const auto check_call = [&](std::size_t action, const std::vector<U128>& arguments) {
    if (action >= info_->actions.size() || info_->actions[action].only_default) {
      throw ControlError(fmt::format("table {}: an entry cannot have this action", info_->name));
    }
    check_arguments(action, arguments);
  };
  if (entry.group.empty()) {
    check_call(entry.action, entry.arguments);
  }
  for (const ActionCall& member : entry.group) {
    check_call(member.action, member.arguments);
  }
}

EntryHandle TableState::add(const Entry& entry) {
  check(entry);
  return insert(entry);
}

EntryHandle TableState::add(const std::vector<Match>& keys, std::string_view action, const std::vector<U128>& arguments,
                            int priority) {
  return add(Entry{keys, action_number(action), arguments, priority, {}});
}

EntryHandle TableState::insert(const Entry& entry) {
  Row row;
  row.keys = entry.keys;
  row.action = static_cast<std::uint32_t>(entry.action);
  row.arguments = entry.arguments;
  row.group = entry.group;
  row.priority = search_ == Search::priority ? entry.priority : 0;
  for (std::size_t i = 0; i < row.keys.size(); ++i) {
    const KeyInfo& key = info_->keys[i];
    Match& match = row.keys[i];
    if (key.kind == MatchKind::exact) {
      match.mask = ones(key.width);
    } else if (key.kind != MatchKind::range) {
      match.value &= match.mask;
    }
    if (key.kind == MatchKind::lpm) {
      row.prefix = count_ones(match.mask);
    }
  }
  if (same_entry(row) != nullptr) {
    throw ControlError(fmt::format("table {}: it has an entry with this key already", info_->name));
  }
  row.handle = next_handle_++;
  const EntryHandle handle = row.handle;
  if (search_ == Search::exact) {
    rows_.push_back(std::move(row));
    if (2 * rows_.size() > buckets_.size()) {
      index();
    } else {
      index_row(rows_.size() - 1);
    }
    return handle;
  }
  const auto comes_after = [&](const Row& other) {
    return search_ == Search::longest_prefix ? other.prefix < row.prefix : other.priority < row.priority;
  };
  const auto place = std::ranges::find_if(rows_, comes_after);
  rows_.insert(place, std::move(row));
  return handle;
}

// The number of the row; rows_.size() if there is none.
std::size_t TableState::number_of(EntryHandle handle) const noexcept {
  if (search_ == Search::exact) {
    const auto number = numbers_.find(handle);
    return number != numbers_.end() ? number->second : rows_.size();
  }
  return static_cast<std::size_t>(std::ranges::find(rows_, handle, &Row::handle) - rows_.begin());
}

std::size_t TableState::row_of(EntryHandle handle) const {
  const std::size_t number = number_of(handle);
  if (number == rows_.size()) {
    throw ControlError(fmt::format("table {}: it has no entry with the handle {}", info_->name, handle));
  }
  return number;
}

Count* TableState::count(EntryHandle handle) noexcept {
  const std::size_t number = number_of(handle);
  return number != rows_.size() ? &rows_[number].count : nullptr;
}

void TableState::modify(EntryHandle handle, std::string_view action, const std::vector<U128>& arguments) {
  Row& row = rows_[row_of(handle)];
  const std::size_t number = action_number(action);
  check_arguments(number, arguments);
  row.action = static_cast<std::uint32_t>(number);
  row.arguments = arguments;
  row.group.clear();
}

void TableState::remove(EntryHandle handle) {
  if (info_->constant_entries) {
    throw ControlError(fmt::format("table {}: its entries are constant", info_->name));
  }
  const std::size_t row = row_of(handle);
  if (search_ == Search::exact) {
    forget_row(row);
  } else {
    rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(row));
  }
}

void TableState::clear() {
  if (!info_->constant_entries) {
    rows_.clear();
    index();
  }
}

void TableState::set_default(std::string_view action, const std::vector<U128>& arguments) {
  const std::size_t number = action_number(action);
  if (info_->constant_default) {
    throw ControlError(fmt::format("table {}: its default action is constant", info_->name));
  }
  if (info_->actions[number].only_entries) {
    throw ControlError(fmt::format("table {}: {} is for entries only", info_->name, action));
  }
  check_arguments(number, arguments);
  default_action_ = static_cast<std::uint32_t>(number);
  default_arguments_ = arguments;
}

std::size_t TableState::action_number(std::string_view action) const {
  std::vector<std::string> names;
  names.reserve(info_->actions.size());
  for (const ActionInfo& one : info_->actions) {
    names.push_back(one.name);
  }
  return State::find_name(names, action, "action of table " + info_->name);
}

std::size_t TableState::home(const Row& row) const noexcept {
  return hash_keys(*info_, [&](std::size_t i) { return row.keys[i].value; }) & (buckets_.size() - 1);
}

std::size_t TableState::bucket_of(std::size_t row) const noexcept {
  std::size_t bucket = home(rows_[row]);
  while (buckets_[bucket] != row + 1) {
    bucket = next(bucket);
  }
  return bucket;
}

void TableState::index_row(std::size_t row) {
  std::size_t bucket = home(rows_[row]);
  while (buckets_[bucket] != 0) {
    bucket = next(bucket);
  }
  buckets_[bucket] = static_cast<std::uint32_t>(row + 1);
  numbers_[rows_[row].handle] = static_cast<std::uint32_t>(row);
}

void TableState::index() {
  numbers_.clear();
  buckets_.assign(std::bit_ceil(4 * rows_.size() + 1), 0);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    index_row(i);
  }
}

void TableState::forget_row(std::size_t row) {
  // Who has passed this bucket moves up, so that it is found.
  std::size_t hole = bucket_of(row);
  for (std::size_t bucket = next(hole); buckets_[bucket] != 0; bucket = next(bucket)) {
    const std::size_t passed = (bucket - home(rows_[buckets_[bucket] - 1])) & (buckets_.size() - 1);
    if (passed >= ((bucket - hole) & (buckets_.size() - 1))) {
      buckets_[hole] = buckets_[bucket];
      hole = bucket;
    }
  }
  buckets_[hole] = 0;
  numbers_.erase(rows_[row].handle);
  // The last row takes the place.
  if (row != rows_.size() - 1) {
    buckets_[bucket_of(rows_.size() - 1)] = static_cast<std::uint32_t>(row + 1);
    numbers_[rows_.back().handle] = static_cast<std::uint32_t>(row);
    rows_[row] = std::move(rows_.back());
  }
  rows_.pop_back();
}

bool TableState::matches(const Row& row, const U128* keys) const noexcept {
  for (std::size_t i = 0; i < row.keys.size(); ++i) {
    const Match& match = row.keys[i];
    const bool fits = info_->keys[i].kind == MatchKind::range ? keys[i] >= match.value && keys[i] <= match.mask
                                                              : (keys[i] & match.mask) == match.value;
    if (!fits) {
      return false;
    }
  }
  return true;
}

TableState::Row* TableState::find(const U128* keys) noexcept {
  if (info_->keys.empty() || rows_.empty()) {
    return nullptr;
  }
  if (search_ == Search::exact) {
    const std::uint64_t hash = hash_keys(*info_, [&](std::size_t i) { return keys[i]; });
    for (std::size_t bucket = hash & (buckets_.size() - 1); buckets_[bucket] != 0; bucket = next(bucket)) {
      Row& row = rows_[buckets_[bucket] - 1];
      if (matches(row, keys)) {
        return &row;
      }
    }
    return nullptr;
  }
  for (Row& row : rows_) {
    if (matches(row, keys)) {
      return &row;
    }
  }
  return nullptr;
}

const TableState::Row* TableState::same_entry(const Row& row) const noexcept {
  const auto is_same = [&](const Row& other) {
    return other.priority == row.priority && std::ranges::equal(row.keys, other.keys, same_match);
  };
  if (search_ != Search::exact) {
    const auto found = std::ranges::find_if(rows_, is_same);
    return found != rows_.end() ? &*found : nullptr;
  }
  if (rows_.empty() || row.keys.size() != info_->keys.size()) {
    return nullptr;
  }
  for (std::size_t bucket = home(row); buckets_[bucket] != 0; bucket = next(bucket)) {
    const Row& other = rows_[buckets_[bucket] - 1];
    if (is_same(other)) {
      return &other;
    }
  }
  return nullptr;
}

void TableState::hash(std::uint64_t& into) const {
  mix(into, default_action_);
  for (const U128 argument : default_arguments_) {
    mix_wide(into, argument);
  }
  // The order of rows that exclude each other says nothing.
  std::uint64_t sum = rows_.size();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    std::uint64_t one = search_ == Search::priority ? i : 0;
    const Row& row = rows_[i];
    for (const Match& match : row.keys) {
      mix_wide(one, match.value);
      mix_wide(one, match.mask);
    }
    mix(one, row.action);
    for (const U128 argument : row.arguments) {
      mix_wide(one, argument);
    }
    for (const ActionCall& member : row.group) {
      mix(one, member.action);
      for (const U128 argument : member.arguments) {
        mix_wide(one, argument);
      }
    }
    sum += one;
  }
  mix(into, sum);
}

bool TableState::operator==(const TableState& other) const {
  const auto same = [](const Row& a, const Row& b) {
    return a.action == b.action && a.arguments == b.arguments && a.priority == b.priority && a.group == b.group &&
           std::equal(a.keys.begin(), a.keys.end(), b.keys.begin(), b.keys.end(), same_match);
  };
  if (default_action_ != other.default_action_ || default_arguments_ != other.default_arguments_ ||
      rows_.size() != other.rows_.size()) {
    return false;
  }
  if (search_ == Search::priority) {
    return std::equal(rows_.begin(), rows_.end(), other.rows_.begin(), same);
  }
  // No two rows have the same keys.
  return std::ranges::all_of(rows_, [&](const Row& row) {
    const Row* const its = other.same_entry(row);
    return its != nullptr && same(row, *its);
  });
}

RegisterState::RegisterState(const RegisterInfo& info)
    : size_(info.size),
      wide_(info.width > 64),
      upper_(static_cast<std::uint64_t>(ones(wide_ ? info.width - 64 : info.width))),
      words_(info.size * (wide_ ? 2 : 1)) {}

State::State(const ProgramInfo& info) : info_(&info) {
  for (const TableInfo& table : info.tables) {
    tables.emplace_back(table);
  }
  for (const RegisterInfo& one : info.registers) {
    registers.emplace_back(one);
  }
  for (const CounterInfo& one : info.counters) {
    counters.emplace_back(one.size);
  }
}

std::size_t State::find_name(const std::vector<std::string>& names, std::string_view name, std::string_view kind) {
  std::size_t found = names.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return i;
    }
    const bool ends =
        names[i].size() > name.size() && names[i].ends_with(name) && names[i][names[i].size() - name.size() - 1] == '.';
    if (ends && found != names.size()) {
      throw ControlError(fmt::format("there are several: {} and {} both end with {}", names[found], names[i], name));
    }
    found = ends ? i : found;
  }
  if (found == names.size()) {
    std::string known;
    for (const std::string& one : names) {
      known += (known.empty() ? "" : ", ") + one;
    }
    throw ControlError(
        fmt::format("there is no {} named {}; there are: {}", kind, name, known.empty() ? "none" : known));
  }
  return found;
}

namespace {

template <class Info>
std::vector<std::string> names_of(const std::vector<Info>& infos) {
  std::vector<std::string> names;
  names.reserve(infos.size());
  for (const Info& info : infos) {
    names.push_back(info.name);
  }
  return names;
}

}  // namespace

TableState& State::table(std::string_view name) { return tables[find_name(names_of(info_->tables), name, "table")]; }

RegisterState& State::reg(std::string_view name) {
  return registers[find_name(names_of(info_->registers), name, "register")];
}

std::vector<Count>& State::counter(std::string_view name) {
  return counters[find_name(names_of(info_->counters), name, "counter")];
}

std::uint64_t State::hash() const {
  std::uint64_t hash = kMultiplier;
  for (const TableState& table : tables) {
    table.hash(hash);
  }
  for (const RegisterState& one : registers) {
    for (const std::uint64_t word : one.words()) {
      mix(hash, word);
    }
  }
  return hash;
}

bool State::operator==(const State& other) const { return tables == other.tables && registers == other.registers; }

}  // namespace sidelatch::p4
