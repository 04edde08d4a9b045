// MemoryRegion: memory that NICs may touch. Node (node.h) makes them.
//
//   MemoryRegion table  = storage.allocate(1 << 20, Access::remote_all);
//   MemoryRegion buffer = client.allocate(4096, Access::local_write);
//   co_await qp.read(buffer.local(0, 64), table.remote(128, 64));
//
// A region ends by deregister() or by its destructor. While work requests of its own node are in flight from or into
// it, deregister() throws FabricError{Status::busy} and changes nothing. The destructor keeps memory from allocate()
// alive until those requests are done. It cannot do that for memory that the user registered, so it ends the process
// with a message: a dangling DMA is never an option. Later requests of other nodes fail with Status::remote_access.
//
// The CPU needs a pointer to a region's bytes for bytes(), for a request with_inline(), and for the old value of an
// atomic that names the region as its buffer. Nothing else in the fabric follows the pointer: READ, WRITE, SEND and
// RECV name local bytes by address and key only. A region that only NICs can reach (another device's memory) may thus
// be added as one more way to register.
//
// Thread-safety: a handle is a value for one thread; local() and remote() only compute. The node must outlive it.
#pragma once

#include <sidelatch/fabric/types.h>

#include <cstdint>
#include <span>
#include <string>

namespace sidelatch::fabric {

class Node;

/// What a NIC may do with a region; combine with |.
enum class Access : std::uint8_t {
  local_read = 0,     ///< source of WRITE and SEND: always allowed
  local_write = 1,    ///< destination of READ, atomic results and RECV
  remote_read = 2,    ///< target of READ
  remote_write = 4,   ///< target of WRITE
  remote_atomic = 8,  ///< target of CAS and FETCH-ADD
  remote_all = 15,    ///< everything
};

[[nodiscard]] constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
/// True if `have` contains every right of `need`.
[[nodiscard]] constexpr bool allows(Access have, Access need) {
  return (static_cast<std::uint8_t>(have) & static_cast<std::uint8_t>(need)) == static_cast<std::uint8_t>(need);
}
/// "local_write|remote_read", or "local_read" if that is all.
[[nodiscard]] std::string to_string(Access access);

class MemoryRegion {
 public:
  MemoryRegion() noexcept = default;
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;
  ~MemoryRegion();

  [[nodiscard]] bool valid() const noexcept { return node_ != nullptr; }
  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }
  [[nodiscard]] Access access() const noexcept { return access_; }
  [[nodiscard]] LKey lkey() const noexcept { return lkey_; }
  [[nodiscard]] RKey rkey() const noexcept { return rkey_; }

  /// The bytes as this node's CPU sees them; none if the node is in another process (verbs::RemoteNode).
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {data_, data_ == nullptr ? 0 : static_cast<std::size_t>(length_)};
  }
  /// The whole region for WRs of this node.
  [[nodiscard]] LocalSpan local() const noexcept { return {data_, length_, lkey_}; }
  /// Bytes [offset, offset + length) for WRs of this node. Throws std::out_of_range.
  [[nodiscard]] LocalSpan local(std::uint64_t offset, std::uint64_t length) const {
    return local().subspan(offset, length);
  }
  /// The whole region for WRs of other nodes.
  [[nodiscard]] RemoteSpan remote() const noexcept { return {address_, length_, rkey_}; }
  /// Bytes [offset, offset + length) for WRs of other nodes. Throws std::out_of_range.
  [[nodiscard]] RemoteSpan remote(std::uint64_t offset, std::uint64_t length) const {
    return remote().subspan(offset, length);
  }

  /// Ends the region now. Throws FabricError{Status::busy} if work requests of this node still use it.
  void deregister();

 private:
  friend class Node;
  void release() noexcept;

  Node* node_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t length_ = 0;
  RemoteAddress address_;
  Access access_ = Access::local_read;
  LKey lkey_;
  RKey rkey_;
};

}  // namespace sidelatch::fabric
