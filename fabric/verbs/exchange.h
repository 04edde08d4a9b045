// The messages that a client and a memory server exchange over TCP before and beside RDMA, little-endian.
//
//   magic "SLch" | version u16 | type u16 | length u32 | payload
//
// Every incoming message is checked: magic, version, type, length (at most kLongest), and that the fields use exactly
// the whole payload. An ExchangeError reports the error; the connection is then closed.
#pragma once

#include "port.h"

#include <sidelatch/fabric/memory_region.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sidelatch::fabric::verbs::exchange {

inline constexpr std::uint16_t kVersion = 7;
inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kLongest = std::size_t{64} * 1024;  ///< bytes of a payload

class ExchangeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The first message of a client. `switch_id`: of the switch that asks for a client of its own; 0: it is no switch.
struct Hello {
  std::string token;
  std::uint64_t switch_id = 0;
};
struct SharedRegion {
  std::string name;
  RemoteSpan span;
  Access access{};
};
/// Where the server's connection manager listens.
struct ManagerAddress {
  ibv_gid ip{};            ///< IPv6, or IPv4 mapped into it
  std::uint16_t port = 0;  ///< of the connection manager, not of TCP; 0: there is none
};
/// The server's answer.
struct Welcome {
  std::string node;
  std::vector<SharedRegion> regions;
  ManagerAddress manager;
  std::string no_manager;  ///< why there is no connection manager
  ibv_gid gid{};           ///< of the server's port
};
/// Client: its end of connection `connection`, for the first time or again. `owner`: the owner of latches taken through
/// it, or 0; the same each time, else Refused follows.
struct Connect {
  std::uint32_t connection = 0;
  std::uint16_t owner = 0;
  Address address;
};
/// Server: the other end.
struct Accepted {
  std::uint32_t connection = 0;
  Address address;
};
/// Of a tuple whose latch a switch takes from a connection. If it is in doubt, its word becomes `version`, which is
/// odd. Else it gets version `version` + 1 without a WRITE. The next switch must know both (epoch_notes.h).
struct Mark {
  RemoteSpan word;
  std::uint64_t version = 0;
  std::uint8_t in_doubt = 0;
};
inline constexpr std::size_t kMostMarks = 2048;  ///< of a message
/// Client: if `confirm` is 0, its end of the connection is gone. Otherwise the connection is revoked: Revoked follows
/// when its requests take no further steps, and it is refused from then on. `marks`: of a switch, made when that is so.
struct Disconnect {
  std::uint32_t connection = 0;
  std::uint8_t confirm = 0;
  std::vector<Mark> marks{};
};
/// Client: end all connections of `owner`, whichever client made them; Revoked follows when their requests take no
/// further steps. `marks`: as those of Disconnect.
struct Revoke {
  std::uint16_t owner = 0;
  std::vector<Mark> marks{};
};
struct Revoked {
  std::uint16_t owner = 0;
};
/// Client: its end of connection `connection`, for the first time or again, is about to come through the connection
/// manager. `owner`: as that of Connect.
struct Announce {
  std::uint32_t connection = 0;
  std::uint16_t owner = 0;
};
/// Server: the ticket that the client presents there. It can be used once.
struct Ticket {
  std::uint32_t connection = 0;
  std::uint64_t ticket = 0;
};
/// Client: requests memory of the server for its own use, zeroed, with remote rights `access`.
struct Allocate {
  std::uint32_t region = 0;
  std::uint64_t bytes = 0;
  Access access{};
};
struct Allocated {
  std::uint32_t region = 0;
  RemoteSpan span;
};
/// Client: the memory is no longer needed; Released follows when nobody can reach it.
struct Release {
  std::uint32_t region = 0;
};
struct Released {
  std::uint32_t region = 0;
};
/// Client: others may find its memory by this name.
struct Publish {
  std::uint32_t region = 0;
  std::string name;
};
struct Published {
  std::uint32_t region = 0;
};
/// Client: asks for the memory that is shared or published as `name`. Found with a span of 0 bytes: there is none.
struct Find {
  std::string name;
};
struct Found {
  RemoteSpan span;
};
/// Server: the client's last message was not carried out, with the reason.
struct Refused {
  static constexpr std::uint8_t kUnknownOwner = 1;  ///< a Revoke of an owner that has never connected
  std::string why;
  std::uint8_t code = 0;  ///< 0: any other reason
};

/// Client: everything that the server's NIC has acknowledged is to be placed. Placed follows when it is.
struct Place {};
struct Placed {};
/// Client, to the exchange of a switch that keeps versions: memory from `span` on is a row of tuples from now on.
struct KeepVersions {
  RemoteSpan span;
  std::uint64_t count = 0;
  std::uint64_t tuple_bytes = 0;
  std::uint64_t slot_bytes = 0;
};
struct VersionsKept {};
/// Client, to the exchange of a switch that keeps versions: connection `connection` is to have the latch of the tuple
/// at `span`, if the tuple is in doubt.
struct Inherit {
  std::uint32_t connection = 0;
  RemoteSpan span;
};
struct Inherited {
  std::uint8_t done = 0;  ///< 0: the tuple is not in doubt
};
/// Client, to the exchange of a switch that caches versions: the tuple at `span` is to become hot or cold. Noted
/// follows when it is.
struct Move {
  RemoteSpan span;
  std::uint8_t to_hot = 0;
};
// ---- A switch that takes the place of another one: switch_recovery.h.

/// Switch: all connections through other switches end, and these switches are refused from then on. TakenOver follows
/// when what was acknowledged is placed, and their queue pairs have ended.
struct TakeOver {};
/// Server: whose connections ended with a switch, this time or before, and are not settled yet.
struct TakenOver {
  std::vector<std::uint16_t> owners;
  std::uint8_t others = 0;         ///< connections without an owner
  std::uint64_t latest_epoch = 0;  ///< that any NoteEpoch has named
};
/// Switch: it ends. The connections of this conversation are to be settled.
struct Leave {};
/// Client, and the switch to its server: `owner` has no WRITE in doubt any more; 0: nobody is waited for. Noted
/// follows.
struct Settle {
  std::uint16_t owner = 0;
};
struct Noted {};
/// Switch: the first words of `count` slots of `stride` bytes from `span` on, at most kMostWords. Words follows.
struct ReadWords {
  RemoteSpan span;
  std::uint64_t stride = 0;
  std::uint64_t count = 0;
};
struct Words {
  std::vector<std::uint64_t> words;
};
inline constexpr std::uint64_t kMostWords = 4096;
/// Switch: all of them become `value`. Noted follows when they are.
struct WriteWords {
  RemoteSpan span;
  std::uint64_t stride = 0;
  std::uint64_t count = 0;
  std::uint64_t value = 0;
};
/// Switch: these words, as they are, and that they are about to become `value` or more. Noted follows.
struct NoteEpoch {
  RemoteSpan span;
  std::uint64_t stride = 0;
  std::uint64_t count = 0;
  std::uint64_t value = 0;
};
/// Switch: the WRITE that would have given the tuple at `span` version `version` is about to be made again, in the
/// epoch that begins with version `epoch`. Noted follows.
struct NoteGrant {
  RemoteSpan span;
  std::uint64_t epoch = 0;
  std::uint64_t version = 0;
};
/// Switch: marks of connections that have ended. Noted follows.
struct NoteMarks {
  std::vector<Mark> marks;
};
/// Switch: `owner` is about to inherit the tuple at `span`, and its WRITE gives version `version`. Noted follows.
struct NoteHeir {
  RemoteSpan span;
  std::uint64_t version = 0;
  std::uint16_t owner = 0;
};
/// Switch: what became of such a WRITE of `owner` by the switches before? Recalled follows.
struct Recall {
  RemoteSpan span;
  std::uint64_t version = 0;
  std::uint16_t owner = 0;
};
struct Recalled {
  std::uint8_t fate = 0;      ///< a Fate (epoch_notes.h)
  std::uint64_t version = 0;  ///< that it has now, if it is undecided
};
/// Client: its WRITE that would have given the tuple at `span` version `version` has no answer, as a switch has ended.
/// Connection `connection` is to have the latch, if it must be written again.
struct Resume {
  std::uint32_t connection = 0;
  RemoteSpan span;
  std::uint64_t version = 0;
};
struct Resumed {
  std::uint8_t resumption = 0;  ///< a Resumption
};

using Message =
    std::variant<Hello, Welcome, Connect, Accepted, Disconnect, Revoke, Revoked, Refused, Allocate, Allocated, Release,
                 Released, Publish, Published, Find, Found, Announce, Ticket, Place, Placed, KeepVersions, VersionsKept,
                 Inherit, Inherited, TakeOver, TakenOver, Leave, Settle, Noted, ReadWords, Words, WriteWords, NoteEpoch,
                 NoteGrant, Recall, Recalled, Move, Resume, Resumed, NoteMarks, NoteHeir>;

/// Why a Connect or Announce of `owner` is refused, if the connection is of owner `before`.
[[nodiscard]] std::string other_owner_text(std::uint32_t connection, std::uint16_t before, std::uint16_t owner);

[[nodiscard]] std::vector<std::byte> encode(const Message& message);
/// Removes and returns the message at the beginning of `bytes`; nothing if it is not complete yet.
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte>& bytes);

}  // namespace sidelatch::fabric::verbs::exchange
