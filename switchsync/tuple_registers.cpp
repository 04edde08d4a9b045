#include "switchsync/tuple_registers.h"

#include <algorithm>

namespace sidelatch::switchsync {

namespace {

// Of an element of the register `state`, or of the lower half of one of `ends`.
constexpr std::uint32_t kWaiting = 0x2000'0000;
constexpr std::uint32_t kKind = 0x0700'0000;
constexpr std::uint32_t kWrite = 0x0300'0000;
constexpr std::uint32_t kOther = 0x0400'0000;
constexpr std::uint32_t kShortKind = 0x1f00'0000;
constexpr std::uint32_t kShortWrite = 0x1900'0000;
constexpr std::uint32_t kHasRead = 0x4000'0000;        // of a holder
constexpr std::uint64_t kNotRead = ~std::uint64_t{0};  // of `seen`, which cuts it to its width

std::uint32_t upper(p4::U128 pair) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(pair) >> 32); }
std::uint32_t lower(p4::U128 pair) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(pair)); }
std::uint64_t pair_of(std::uint32_t upper, std::uint32_t lower) { return std::uint64_t{upper} << 32 | lower; }

}  // namespace

TupleRegisters::TupleRegisters(p4::State& state)
    : wanted_(&state.reg("Serve.wanted")), seen_(&state.reg("Serve.seen")) {
  if (std::ranges::any_of(state.info().registers, [](const auto& one) { return one.name == "Serve.latches"; })) {
    ends_ = &state.reg("Serve.ends");
    latches_ = &state.reg("Serve.latches");
    kept_ = &state.reg("Serve.kept");
  } else {
    psns_ = &state.reg("Serve.state");
    answered_ = &state.reg("Serve.answered");
    versions_ = &state.reg("Serve.versions");
    holders_ = &state.reg("Serve.holders");
  }
}

std::uint64_t TupleRegisters::version(std::uint32_t number) const {
  return has_short_versions() ? lower(latches_->read(number)) : static_cast<std::uint64_t>(versions_->read(number));
}

std::uint32_t TupleRegisters::holder(std::uint32_t number) const {
  return has_short_versions() ? upper(latches_->read(number)) : lower(holders_->read(number));
}

void TupleRegisters::write_version(std::uint32_t number, std::uint64_t version) {
  if (has_short_versions()) {
    latches_->write(number, pair_of(holder(number), lower(version)));
  } else {
    versions_->write(number, version);
  }
}

void TupleRegisters::write_holder(std::uint32_t number, std::uint32_t holder) {
  if (has_short_versions()) {
    latches_->write(number, pair_of(holder, lower(latches_->read(number))));
  } else {
    holders_->write(number, holder);
  }
}

void TupleRegisters::begin(std::uint32_t connection, std::uint32_t psn) {
  if (has_short_versions()) {
    ends_->write(connection, pair_of(psn, psn));
    kept_->write(connection, 0);
  } else {
    psns_->write(connection, psn);
    answered_->write(connection, 0);
  }
  wanted_->write(connection, 0);
  seen_->write(connection, kNotRead);
}

bool TupleRegisters::is_writing(std::uint32_t connection, std::uint32_t number) const {
  if (wanted(connection) != number) {
    return false;
  }
  if (!has_short_versions()) {
    const std::uint32_t latest = lower(psns_->read(connection));
    return (latest & kWaiting) != 0 && (latest & kKind) == kWrite;
  }
  // One that was refused looks the same, but for its sender, who may not write.
  const std::uint32_t latest = lower(ends_->read(connection));
  return (latest & kWaiting) != 0 && (latest & kShortKind) == kShortWrite && (holder(number) & kHasRead) != 0;
}

void TupleRegisters::take_for_other_write(std::uint32_t connection) {
  psns_->write(connection, (lower(psns_->read(connection)) & ~kKind) | kOther);
}

std::uint32_t TupleRegisters::wanted(std::uint32_t connection) const { return lower(wanted_->read(connection)); }
void TupleRegisters::write_wanted(std::uint32_t connection, std::uint32_t number) {
  wanted_->write(connection, number);
}

}  // namespace sidelatch::switchsync
