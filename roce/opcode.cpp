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
    Row{Opcode::atomic_write, "RC ATOMIC WRITE", {.reth = true, .payload = PayloadRule::word}},
    Row{Opcode::ud_send_only, "UD SEND only", {.deth = true, .payload = PayloadRule::any}},
    Row{Opcode::ud_send_only_with_immediate,
        "UD SEND only with immediate",
        {.deth = true, .immediate = true, .payload = PayloadRule::any}},
    Row{Opcode::congestion_notification, "CNP", {.payload = PayloadRule::any}},
};

// What a service has of RC's operations: UC up to the last WRITE; XRC everything, and its requests carry the number of
// a shared receive queue.
constexpr bool is_in(Service service, Opcode of_rc) {
  switch (service) {
    case Service::rc:
    case Service::xrc:
      return true;
    case Service::uc:
      return of_rc <= Opcode::write_only_with_immediate;
    case Service::ud:
      return false;
  }
  return false;
}

constexpr std::uint8_t kUnknown = 0xff;

// The index of each operation's row; rows of RC serve UC and XRC too.
constexpr std::array<std::uint8_t, 256> kRowOf = [] {
  std::array<std::uint8_t, 256> rows{};
  rows.fill(kUnknown);
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const Opcode opcode = kRows[i].opcode;
    rows[static_cast<std::size_t>(opcode)] = static_cast<std::uint8_t>(i);
    for (const Service service : {Service::uc, Service::xrc}) {
      if (service_of(opcode) == Service::rc && is_in(service, opcode)) {
        rows[static_cast<std::size_t>(in(service, opcode))] = static_cast<std::uint8_t>(i);
      }
    }
  }
  return rows;
}();

constexpr std::array<std::optional<OpcodeTraits>, 256> kAllTraits = [] {
  std::array<std::optional<OpcodeTraits>, 256> traits{};
  for (std::size_t number = 0; number < traits.size(); ++number) {
    if (kRowOf[number] == kUnknown) {
      continue;
    }
    OpcodeTraits its = kRows[kRowOf[number]].traits;
    its.xrceth = service_of(static_cast<Opcode>(number)) == Service::xrc && !is_answer(static_cast<Opcode>(number));
    traits[number] = its;
  }
  return traits;
}();

static_assert(std::all_of(kAllTraits.begin(), kAllTraits.end(), [](const std::optional<OpcodeTraits>& traits) {
  return !traits || traits->extension_bytes() <= kMostExtensionBytes;
}));

// "RC SEND first" for RC, and the same for others: "UC SEND first".
using Name = std::array<char, 40>;
constexpr std::array<Name, 256> kNames = [] {
  std::array<Name, 256> names{};
  for (std::size_t number = 0; number < names.size(); ++number) {
    if (kRowOf[number] == kUnknown) {
      continue;
    }
    const std::string_view row = kRows[kRowOf[number]].name;
    const Service service = service_of(static_cast<Opcode>(number));
    const std::string_view called = service == Service::uc ? "UC" : service == Service::xrc ? "XRC" : row.substr(0, 2);
    std::copy(called.begin(), called.end(), names[number].begin());
    std::copy(row.begin() + 2, row.end(), names[number].begin() + called.size());
  }
  return names;
}();

}  // namespace

constinit const std::array<std::optional<OpcodeTraits>, 256> detail::kTraits = kAllTraits;

std::string_view name(Opcode opcode) noexcept {
  const auto number = static_cast<std::size_t>(opcode);
  return kRowOf[number] == kUnknown ? "unknown" : std::string_view(kNames[number].data());
}

}  // namespace sidelatch::roce
