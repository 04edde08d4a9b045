#include "exchange.h"

#include "little_endian.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

namespace sidelatch::fabric::verbs::exchange {

namespace {

constexpr std::array<char, 4> kMagic = {'S', 'L', 'c', 'h'};

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(&out) {}
  template <std::unsigned_integral T>
  void operator()(const T& value) {
    append(*out_, value);
  }
  void operator()(const std::string& text) {
    if (text.size() > 0xffff) {
      throw ExchangeError(
          fmt::format("a text of {} bytes was to be sent: at most {} are allowed", text.size(), 0xffff));
    }
    (*this)(static_cast<std::uint16_t>(text.size()));
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    out_->insert(out_->end(), bytes, bytes + text.size());
  }
  void operator()(const ibv_gid& gid) {
    for (const std::uint8_t byte : gid.raw) {
      (*this)(byte);
    }
  }
  void operator()(const Access& access) { (*this)(static_cast<std::uint8_t>(access)); }
  void operator()(const RemoteSpan& span) {
    (*this)(span.address.value);
    (*this)(span.length);
    (*this)(span.rkey.value);
  }
  template <class T>
  void operator()(const std::vector<T>& all) {
    (*this)(static_cast<std::uint16_t>(std::min<std::size_t>(all.size(), 0xffff)));
    for (const T& one : all) {
      (*this)(one);
    }
  }
  template <class T>
    requires(!std::unsigned_integral<T>)
  void operator()(const T& part) {
    visit(part, *this);
  }

 private:
  std::vector<std::byte>* out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <std::unsigned_integral T>
  void operator()(T& value) {
    value = number_at<T>(take(sizeof value), 0);
  }
  void operator()(std::string& text) {
    std::uint16_t length = 0;
    (*this)(length);
    const std::span<const std::byte> bytes = take(length);
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void operator()(ibv_gid& gid) {
    for (std::uint8_t& byte : gid.raw) {
      (*this)(byte);
    }
  }
  void operator()(Access& access) {
    std::uint8_t rights = 0;
    (*this)(rights);
    access = static_cast<Access>(rights & static_cast<std::uint8_t>(Access::remote_all));
  }
  void operator()(RemoteSpan& span) {
    (*this)(span.address.value);
    (*this)(span.length);
    (*this)(span.rkey.value);
  }
  template <class T>
  void operator()(std::vector<T>& all) {
    std::uint16_t count = 0;
    (*this)(count);
    for (std::uint16_t i = 0; i < count; ++i) {
      (*this)(all.emplace_back());
    }
  }
  template <class T>
    requires(!std::unsigned_integral<T>)
  void operator()(T& part) {
    visit(part, *this);
  }
  void require_end() const {
    if (!in_.empty()) {
      throw ExchangeError(fmt::format("{} bytes are left behind a message", in_.size()));
    }
  }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    if (bytes > in_.size()) {
      throw ExchangeError(fmt::format("a message ends {} bytes early", bytes - in_.size()));
    }
    const std::span<const std::byte> taken = in_.first(bytes);
    in_ = in_.subspan(bytes);
    return taken;
  }

  std::span<const std::byte> in_;
};

// The fields of each message, in their order; the same for both directions.
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Address>
void visit(T& address, V&& v) {
  v(address.gid);
  v(address.queue_pair);
  v(address.packet_number);
  v(address.lid);
  v(address.mtu);
  v(address.responder);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, SharedRegion>
void visit(T& region, V&& v) {
  v(region.name);
  v(region.span);
  v(region.access);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Hello>
void visit(T& hello, V&& v) {
  v(hello.token);
  v(hello.switch_id);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, ManagerAddress>
void visit(T& manager, V&& v) {
  v(manager.ip);
  v(manager.port);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Welcome>
void visit(T& welcome, V&& v) {
  v(welcome.node);
  v(welcome.regions);
  v(welcome.manager);
  v(welcome.no_manager);
  v(welcome.gid);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Connect>
void visit(T& connect, V&& v) {
  v(connect.connection);
  v(connect.owner);
  v(connect.address);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Accepted>
void visit(T& accepted, V&& v) {
  v(accepted.connection);
  v(accepted.address);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Mark>
void visit(T& mark, V&& v) {
  v(mark.word);
  v(mark.version);
  v(mark.in_doubt);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Disconnect>
void visit(T& disconnect, V&& v) {
  v(disconnect.connection);
  v(disconnect.confirm);
  v(disconnect.marks);
}
template <class T, class V>
  requires(std::same_as<std::remove_const_t<T>, Revoke> || std::same_as<std::remove_const_t<T>, Revoked>)
void visit(T& revoke, V&& v) {
  v(revoke.owner);
  if constexpr (requires { revoke.marks; }) {
    v(revoke.marks);
  }
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Refused>
void visit(T& refused, V&& v) {
  v(refused.why);
  v(refused.code);
}

template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Announce>
void visit(T& announce, V&& v) {
  v(announce.connection);
  v(announce.owner);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Ticket>
void visit(T& ticket, V&& v) {
  v(ticket.connection);
  v(ticket.ticket);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Allocate>
void visit(T& allocate, V&& v) {
  v(allocate.region);
  v(allocate.bytes);
  v(allocate.access);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Allocated>
void visit(T& allocated, V&& v) {
  v(allocated.region);
  v(allocated.span);
}
template <class T, class V>
  requires(std::same_as<std::remove_const_t<T>, Release> || std::same_as<std::remove_const_t<T>, Released> ||
           std::same_as<std::remove_const_t<T>, Published>)
void visit(T& message, V&& v) {
  v(message.region);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Publish>
void visit(T& publish, V&& v) {
  v(publish.region);
  v(publish.name);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Find>
void visit(T& find, V&& v) {
  v(find.name);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Found>
void visit(T& found, V&& v) {
  v(found.span);
}
template <class T, class V>
  requires(std::same_as<std::remove_const_t<T>, Place> || std::same_as<std::remove_const_t<T>, Placed> ||
           std::same_as<std::remove_const_t<T>, VersionsKept> || std::same_as<std::remove_const_t<T>, TakeOver> ||
           std::same_as<std::remove_const_t<T>, Leave> || std::same_as<std::remove_const_t<T>, Noted>)
void visit(T& /*message*/, V&& /*v*/) {}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, KeepVersions>
void visit(T& tuples, V&& v) {
  v(tuples.span);
  v(tuples.count);
  v(tuples.tuple_bytes);
  v(tuples.slot_bytes);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Inherit>
void visit(T& inherit, V&& v) {
  v(inherit.connection);
  v(inherit.span);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Inherited>
void visit(T& inherited, V&& v) {
  v(inherited.done);
}

template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, TakenOver>
void visit(T& taken, V&& v) {
  v(taken.owners);
  v(taken.others);
  v(taken.latest_epoch);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Settle>
void visit(T& settle, V&& v) {
  v(settle.owner);
}
template <class T, class V>
  requires(std::same_as<std::remove_const_t<T>, ReadWords> || std::same_as<std::remove_const_t<T>, WriteWords> ||
           std::same_as<std::remove_const_t<T>, NoteEpoch>)
void visit(T& words, V&& v) {
  v(words.span);
  v(words.stride);
  v(words.count);
  if constexpr (requires { words.value; }) {
    v(words.value);
  }
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Words>
void visit(T& words, V&& v) {
  v(words.words);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, NoteGrant>
void visit(T& grant, V&& v) {
  v(grant.span);
  v(grant.epoch);
  v(grant.version);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, NoteMarks>
void visit(T& note, V&& v) {
  v(note.marks);
}
template <class T, class V>
  requires(std::same_as<std::remove_const_t<T>, NoteHeir> || std::same_as<std::remove_const_t<T>, Recall>)
void visit(T& note, V&& v) {
  v(note.span);
  v(note.version);
  v(note.owner);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Move>
void visit(T& move, V&& v) {
  v(move.span);
  v(move.to_hot);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Recalled>
void visit(T& recalled, V&& v) {
  v(recalled.fate);
  v(recalled.version);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Resume>
void visit(T& resume, V&& v) {
  v(resume.connection);
  v(resume.span);
  v(resume.version);
}
template <class T, class V>
  requires std::same_as<std::remove_const_t<T>, Resumed>
void visit(T& resumed, V&& v) {
  v(resumed.resumption);
}

template <std::size_t Type = 0>
Message make(std::size_t type) {
  if constexpr (Type < std::variant_size_v<Message>) {
    return type == Type ? Message(std::in_place_index<Type>) : make<Type + 1>(type);
  } else {
    throw ExchangeError(fmt::format("message type {} is unknown", type + 1));
  }
}

}  // namespace

std::string other_owner_text(std::uint32_t connection, std::uint16_t before, std::uint16_t owner) {
  return fmt::format("connection {} is of owner {}, and owner {} asks for it: make a new one for another owner",
                     connection, before, owner);
}

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> payload;
  std::visit([&](const auto& one) { visit(one, Writer(payload)); }, message);
  if (payload.size() > kLongest) {
    throw ExchangeError(
        fmt::format("a message of {} bytes was to be sent: at most {} are allowed (are there so many shared "
                    "regions?)",
                    payload.size(), kLongest));
  }
  std::vector<std::byte> out;
  Writer header(out);
  for (const char letter : kMagic) {
    header(static_cast<std::uint8_t>(letter));
  }
  header(kVersion);
  header(static_cast<std::uint16_t>(message.index() + 1));
  header(static_cast<std::uint32_t>(payload.size()));
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

std::optional<Message> decode(std::span<const std::byte>& bytes) {
  // Report errors as early as possible: do not wait for the rest of an invalid message.
  const std::size_t magic = std::min(bytes.size(), kMagic.size());
  if (magic != 0 && std::memcmp(bytes.data(), kMagic.data(), magic) != 0) {
    throw ExchangeError("the other side does not speak this protocol: is it the port of a sidelatch memory server?");
  }
  if (bytes.size() < kHeaderBytes) {
    return std::nullopt;
  }
  Reader header(bytes.subspan(kMagic.size(), kHeaderBytes - kMagic.size()));
  std::uint16_t version = 0;
  std::uint16_t type = 0;
  std::uint32_t length = 0;
  header(version);
  header(type);
  header(length);
  if (version != kVersion) {
    throw ExchangeError(
        fmt::format("the other side speaks version {} of the protocol, this one version {}: use the same "
                    "release on both",
                    version, kVersion));
  }
  if (length > kLongest) {
    throw ExchangeError(fmt::format("a message of {} bytes was announced: at most {} are allowed", length, kLongest));
  }
  Message message = make(type - 1U);
  if (bytes.size() < kHeaderBytes + length) {
    return std::nullopt;
  }
  Reader payload(bytes.subspan(kHeaderBytes, length));
  std::visit([&](auto& one) { visit(one, payload); }, message);
  payload.require_end();
  bytes = bytes.subspan(kHeaderBytes + length);
  return message;
}

}  // namespace sidelatch::fabric::verbs::exchange
