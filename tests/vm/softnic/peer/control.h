// Control: the connection over which the two peers exchange addresses and wait for each other.
//
//   Control control = Control::open(rank, "/tmp/socket");        // rank 0 listens, rank 1 connects
//   const Hello theirs = control.exchange("hello", mine);        // both call it, with the same tag
//   control.barrier("the receives are posted");                  // both have come that far
//
// It does not use RDMA: TCP ("HOST:PORT"), or a UNIX socket (a path), which network namespaces do not separate. All
// functions throw std::runtime_error if the other peer has ended or is at another tag, or if nothing comes for
// kPatience.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace sidelatch::peer {

/// For every action of the other side: an emulated guest on a busy machine is slow.
inline constexpr std::chrono::seconds kPatience{120};

class Control {
 public:
  static Control open(int rank, const std::string& address);
  Control(Control&& other) noexcept;
  Control& operator=(Control&&) = delete;
  ~Control();

  /// The other peer's value.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T exchange(std::string_view tag, const T& mine) {
    T theirs{};
    exchange_bytes(tag, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(&theirs, 1)));
    return theirs;
  }
  void barrier(std::string_view tag) { exchange(tag, std::byte{}); }
  /// Returns when the other peer has ended.
  void wait_for_end();

 private:
  explicit Control(int socket) : socket_(socket) {}
  void exchange_bytes(std::string_view tag, std::span<const std::byte> mine, std::span<std::byte> theirs);
  void send(std::span<const std::byte> bytes) const;
  [[nodiscard]] bool receive(std::span<std::byte> bytes) const;

  int socket_;
};

}  // namespace sidelatch::peer
