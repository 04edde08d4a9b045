#include "opcode.h"

#include <algorithm>
#include <array>

namespace sidelatch::roce {

namespace {

struct Row {
  Opcode opcode;
  std::string_view name;
  OpcodeTraits traits;
};

constexpr std::array kRows{
    Row{Opcode::send_first, "RC SEND first", {.payload = PayloadRule::exact}},
    Row{Opcode::send_middle, "RC SEND middle", {.payload = PayloadRule::exact}},
    Row{Opcode::send_last, "RC SEND last", {.payload = PayloadRule::non_empty}},
    Row{Opcode::send_last_with_immediate,
        "RC SEND last with immediate",
        {.immediate = true, .payload = PayloadRule::non_empty}},
    Row{Opcode::send_only, "RC SEND only", {.payload = PayloadRule::any}},
    Row{Opcode::send_only_with_immediate,
        "RC SEND only with immediate",
        {.immediate = true, .payload = PayloadRule::any}},
    Row{Opcode::write_first, "RC RDMA WRITE first", {.reth = true, .payload = PayloadRule::exact}},
    Row{Opcode::write_middle, "RC RDMA WRITE middle", {.payload = PayloadRule::exact}},
    Row{Opcode::write_last, "RC RDMA WRITE last", {.payload = PayloadRule::non_empty}},
    Row{Opcode::write_last_with_immediate,
        "RC RDMA WRITE last with immediate",
        {.immediate = true, .payload = PayloadRule::non_empty}},
    Row{Opcode::write_only, "RC RDMA WRITE only", {.reth = true, .payload = PayloadRule::any}},
    Row{Opcode::write_only_with_immediate,
        "RC RDMA WRITE only with immediate",
        {.reth = true, .immediate = true, .payload = PayloadRule::any}},
    Row{Opcode::read_request, "RC RDMA READ request", {.reth = true}},
    Row{Opcode::read_response_first, "RC RDMA READ response first", {.aeth = true, .payload = PayloadRule::exact}},
    Row{Opcode::read_response_middle, "RC RDMA READ response middle", {.payload = PayloadRule::exact}},
    Row{Opcode::read_response_last, "RC RDMA READ response last", {.aeth = true, .payload = PayloadRule::non_empty}},
    Row{Opcode::read_response_only, "RC RDMA READ response only", {.aeth = true, .payload = PayloadRule::any}},
    Row{Opcode::acknowledge, "RC ACKNOWLEDGE", {.aeth = true}},
    Row{Opcode::atomic_acknowledge, "RC ATOMIC ACKNOWLEDGE", {.aeth = true, .atomic_ack_eth = true}},
    Row{Opcode::compare_swap, "RC CmpSwap", {.atomic_eth = true}},
    Row{Opcode::fetch_add, "RC FetchAdd", {.atomic_eth = true}},
    Row{Opcode::send_last_with_invalidate,
        "RC SEND last with invalidate",
        {.ieth = true, .payload = PayloadRule::non_empty}},
    Row{Opcode::send_only_with_invalidate, "RC SEND only with invalidate", {.ieth = true, .payload = PayloadRule::any}},
    Row{Opcode::ud_send_only, "UD SEND only", {.deth = true, .payload = PayloadRule::any}},
    Row{Opcode::ud_send_only_with_immediate,
        "UD SEND only with immediate",
        {.deth = true, .immediate = true, .payload = PayloadRule::any}},
};

static_assert(std::all_of(kRows.begin(), kRows.end(),
                          [](const Row& row) { return row.traits.extension_bytes() <= kMostExtensionBytes; }));

constexpr std::uint8_t kUnknown = 0xff;

// The index of each opcode's row.
constexpr std::array<std::uint8_t, 256> kRowOf = [] {
  std::array<std::uint8_t, 256> rows{};
  rows.fill(kUnknown);
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    rows[static_cast<std::size_t>(kRows[i].opcode)] = static_cast<std::uint8_t>(i);
  }
  return rows;
}();

}  // namespace

constinit const std::array<std::optional<OpcodeTraits>, 256> detail::kTraits = [] {
  std::array<std::optional<OpcodeTraits>, 256> traits{};
  for (const Row& row : kRows) {
    traits[static_cast<std::size_t>(row.opcode)] = row.traits;
  }
  return traits;
}();

std::string_view name(Opcode opcode) noexcept {
  const std::uint8_t row = kRowOf[static_cast<std::size_t>(opcode)];
  return row == kUnknown ? "unknown" : kRows[row].name;
}

}  // namespace sidelatch::roce
