#include "workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace sidelatch::bench {

void Mix::validate() const {
  double sum = 0;
  for (const auto& [name, share] : {std::pair{"read", read}, std::pair{"update", update}, std::pair{"insert", insert},
                                    std::pair{"scan", scan}, std::pair{"read_modify_write", read_modify_write}}) {
    if (!(share >= 0 && share <= 1)) {
      throw std::invalid_argument(fmt::format("Mix::{} is {}: it must be 0 to 1", name, share));
    }
    sum += share;
  }
  if (std::abs(sum - 1) > 1e-9) {
    throw std::invalid_argument(fmt::format("the shares of a Mix add up to {}: it must be 1", sum));
  }
  if (scan > 0 && longest_scan == 0) {
    throw std::invalid_argument("Mix::longest_scan is 0: it must be at least 1");
  }
}

Mix ycsb(char workload) {
  switch (workload) {
    case 'A':
      return {.read = 0.5, .update = 0.5};
    case 'B':
      return {.read = 0.95, .update = 0.05};
    case 'C':
      return {.read = 1};
    case 'D':
      return {.read = 0.95, .insert = 0.05, .popularity = Mix::Popularity::latest};
    case 'E':
      return {.insert = 0.05, .scan = 0.95};
    case 'F':
      return {.read = 0.5, .read_modify_write = 0.5};
    default:
      throw std::invalid_argument(fmt::format("there is no YCSB workload {}: the names are A to F", workload));
  }
}

KeySpace::KeySpace(std::uint64_t initial, std::uint64_t most) : size_(initial), most_(most == 0 ? initial : most) {
  if (initial == 0 || most_ < initial) {
    throw std::invalid_argument(
        fmt::format("{} keys of at most {}: there must be at least 1, and no more than that", initial, most_));
  }
}

std::uint64_t KeySpace::add() {
  if (size_ == most_) {
    throw std::length_error(fmt::format("there are {} keys: give the KeySpace room for inserts", size_));
  }
  return size_++;
}

Workload::Workload(const Mix& mix, double exponent, KeySpace& keys, std::uint64_t seed)
    : mix_(mix), keys_(&keys), ranks_(keys.most(), exponent), scatter_(keys.most()), random_(seed) {
  mix.validate();
}

Operation::Kind Workload::draw_kind() {
  const std::array shares = {
      std::pair{Operation::Kind::read, mix_.read}, std::pair{Operation::Kind::update, mix_.update},
      std::pair{Operation::Kind::insert, mix_.insert}, std::pair{Operation::Kind::scan, mix_.scan},
      std::pair{Operation::Kind::read_modify_write, mix_.read_modify_write}};
  double left = static_cast<double>(random_() >> 11) * 0x1.0p-53;
  Operation::Kind last = Operation::Kind::read;
  for (const auto& [kind, share] : shares) {
    if (share == 0) {
      continue;
    }
    last = kind;
    if (left < share) {
      break;
    }
    left -= share;
  }
  return last;  // the shares add up to 1 except for rounding
}

std::uint64_t Workload::draw_key() {
  if (mix_.popularity == Mix::Popularity::latest) {
    if (ranks_.items() != keys_->size()) {
      ranks_ = Zipf(keys_->size(), ranks_.exponent());
    }
    return keys_->size() - 1 - ranks_(random_);
  }
  // As in YCSB, popularity is spread over all keys that will ever exist, and keys that do not exist yet are skipped.
  for (;;) {
    const std::uint64_t key = scatter_(ranks_(random_));
    if (key < keys_->size()) {
      return key;
    }
  }
}

Operation Workload::next() {
  Operation operation{.kind = draw_kind()};
  operation.key = operation.kind == Operation::Kind::insert ? keys_->add() : draw_key();
  if (operation.kind == Operation::Kind::scan) {
    operation.scan_length = static_cast<std::uint32_t>(1 + random_() % mix_.longest_scan);
  }
  return operation;
}

}  // namespace sidelatch::bench
