// What the control plane must know of p4/zero_sided.p4.
#pragma once

#include <sidelatch/flows/flow_switch.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::flows::program {

inline constexpr std::uint16_t kGeneratorPort = 510;
inline constexpr std::uint32_t kIdle = 1;
inline constexpr std::uint32_t kDone = 2;
inline constexpr std::uint32_t kDead = 3;
inline constexpr std::uint32_t kSeek = 4;  // in all that come behind it a request is out
inline constexpr std::uint32_t kFree = 6;
inline constexpr std::uint32_t kTell = 7;
inline constexpr std::uint32_t kData = 8;
inline constexpr std::uint32_t kPush = 10;
inline constexpr std::uint32_t kDrain = 12;
inline constexpr std::uint32_t kLost = 1;          // of `marks`
inline constexpr std::uint32_t kEnding = 2;        // of `marks`
inline constexpr std::uint32_t kPaced = 1;         // of `paces`
inline constexpr std::uint32_t kPaid = 2;          // of `paces`
inline constexpr std::uint32_t kWaits = 0xf'ffff;  // of `waits`: not 0 of a producer that is put aside
inline constexpr std::uint32_t kProducerEnded = 1;
inline constexpr std::uint32_t kHolder = 0xffff;  // of `locks`
inline constexpr std::uint32_t kProducerLost = 2;
inline constexpr std::uint32_t kTailWritten = 0x4000'0000;  // of `pendings`, with the thread + 1
inline constexpr std::array kThreadRegisters{"phases", "retries", "sent",   "heads",         "tails",
                                             "items",  "starts",  "passed", "consumer_psns", "silences",
                                             "marks",  "shrinks", "paces",  "begun",         "slownesses"};
inline constexpr std::array kProducerRegisters{"producer_psns", "known", "taken", "gone", "owed"};
// By own numbers, of threads that are not alone and of their producers.
inline constexpr std::array kSharedThreadRegisters{"positions",   "misses",       "ends",  "answers",
                                                   "lost",        "fullest",      "owing", "owing_names",
                                                   "owing_tails", "vain_batches", "living"};
inline constexpr std::array kSharedProducerRegisters{"locks", "waits", "asked", "pendings"};

inline constexpr std::uint32_t kFirstEnd = 16;
inline constexpr std::size_t kMostMembers = 16'384;  // of the table `members`
// Arguments of is_thread that change while a flow runs.
inline constexpr std::size_t kThreadProducers = 3;
inline constexpr std::size_t kThreadIsOpen = 13;
inline constexpr std::size_t kThreadLeaves = 14;
inline constexpr std::size_t kThreadNext = 15;

/// Whether the threads of a flow have registers of their own for what 1:1 does not need: several producers or
/// consumers of a thread, threads that share producers, units that join.
[[nodiscard]] bool is_shared(const Flow& flow);

/// The first free one, which is not free any more. Throws p4::ControlError that names `what`.
[[nodiscard]] std::uint32_t take_free(std::vector<bool>& used, const char* what);

}  // namespace sidelatch::flows::program
