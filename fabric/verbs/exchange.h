// What a client and a memory server tell each other over TCP before and beside RDMA: whole messages, little-endian.
//
//   magic "SLch" | version u16 | type u16 | length u32 | payload
//
// Everything that comes in is checked: magic, version, type, length (at most kLongest), and that the payload is used up
// exactly. A ExchangeError says what was wrong; the connection is then closed.
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

inline constexpr std::uint16_t kVersion = 2;
inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kLongest = std::size_t{64} * 1024;  ///< bytes of a payload

class ExchangeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The first message of a client.
struct Hello {
  std::string token;
};
struct SharedRegion {
  std::string name;
  RemoteSpan span;
  Access access{};
};
/// Where the server's connection manager listens.
struct ManagerAddress {
  ibv_gid ip{};            ///< IPv6, or IPv4 mapped into it
  std::uint16_t port = 0;  ///< of the connection manager, not of TCP; 0: it has none
};
/// The server's answer.
struct Welcome {
  std::string node;
  std::vector<SharedRegion> regions;
  ManagerAddress manager;
  std::string no_manager;  ///< why it has none
};
/// Client: its end of connection `connection`, new or once more. `owner`: 0, or whose latches are taken by it.
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
/// Client: the connection is no longer needed; if `confirm` is not 0, Revoked follows when nothing of it happens any
/// more.
struct Disconnect {
  std::uint32_t connection = 0;
  std::uint8_t confirm = 0;
};
/// Client: end all connections of `owner`, whoever has made them; Revoked follows when nothing of them happens any
/// more.
struct Revoke {
  std::uint16_t owner = 0;
};
struct Revoked {
  std::uint16_t owner = 0;
};
/// Client: its end of connection `connection`, new or once more, is about to come through the connection manager.
struct Announce {
  std::uint32_t connection = 0;
  std::uint16_t owner = 0;
};
/// Server: what the client shows there. Good for one time.
struct Ticket {
  std::uint32_t connection = 0;
  std::uint64_t ticket = 0;
};
/// Client: memory of the server for its own use, zeroed, with remote rights `access`.
struct Allocate {
  std::uint32_t region = 0;
  std::uint64_t bytes = 0;
  Access access{};
};
struct Allocated {
  std::uint32_t region = 0;
  RemoteSpan span;
};
/// Client: it does not need that memory any more; Released follows when nobody reaches it.
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
/// Client: where is the memory that is shared or published as `name`? Found with a span of 0 bytes: nowhere.
struct Find {
  std::string name;
};
struct Found {
  RemoteSpan span;
};
/// Server: the last message of the client was not carried out, and why.
struct Refused {
  std::string why;
};

using Message = std::variant<Hello, Welcome, Connect, Accepted, Disconnect, Revoke, Revoked, Refused, Allocate,
                             Allocated, Release, Released, Publish, Published, Find, Found, Announce, Ticket>;

[[nodiscard]] std::vector<std::byte> encode(const Message& message);
/// The message at the beginning of `bytes`, which are shortened by it; nothing if it is not complete yet.
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte>& bytes);

}  // namespace sidelatch::fabric::verbs::exchange
