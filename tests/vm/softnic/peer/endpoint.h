// The objects of the peer program's scenarios: a device, registered memory, and queue pairs that know their partner.
//
//   Device device({.ip_version = 4});
//   Buffer table(device, 1 << 20, kAllRights);
//   Link link(session, table, {});                       // both peers; connected when it returns
//   link.post({.opcode = IBV_WR_RDMA_WRITE, .from = {local.piece(0, 8)}, .remote_offset = 64});
//   expect_status(link.completion(), IBV_WC_SUCCESS, "the write");
//
// Plain libibverbs, so that the test exercises whichever provider is present, a kernel's driver or a preloaded library.
// All functions throw std::runtime_error, which ends the process with a message and status 1.
#pragma once

#include "control.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::peer {

template <class... Arguments>
void require(bool holds, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (!holds) {
    throw std::runtime_error(fmt::format(text, std::forward<Arguments>(arguments)...));
  }
}

inline constexpr int kAllRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct Options {
  int rank = 0;
  std::string control{};
  std::string device{};     ///< empty: the first one
  int ip_version = 4;       ///< of the GID
  std::size_t mtu = 1024;   ///< of the path, bytes
  std::size_t count = 200;  ///< how often, where a scenario repeats something
  std::uint64_t seed = 1;   ///< of what a scenario draws
  int vanishing = 1;        ///< the rank that ends without a word, where one does
  int timeout = 16;         ///< of acknowledgements: 4.096 us * 2^timeout
};

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
template <class T, auto Destroy>
using Owned = std::unique_ptr<T, Deleter<Destroy>>;

class Device {
 public:
  explicit Device(const Options& options);

  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] const ibv_gid& gid() const { return gid_; }
  [[nodiscard]] std::uint8_t gid_index() const { return gid_index_; }
  /// Of the port, bytes.
  [[nodiscard]] std::size_t mtu() const { return mtu_; }
  /// Whether it is Linux's soft-RoCE driver, which differs in a few points.
  [[nodiscard]] bool is_rxe() const;
  /// rxe of Linux 6.1 with two CPUs stopped for ever in some runs of a script with fences, even with a clean wire, and
  /// never without fences. A fence concerns only the requester; the other side does not see it.
  [[nodiscard]] bool has_good_fence() const { return !is_rxe(); }

 private:
  Owned<ibv_context, ibv_close_device> context_;
  Owned<ibv_pd, ibv_dealloc_pd> domain_;
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
  std::size_t mtu_ = 0;
};

/// The context of a scenario.
struct Session {
  Control& control;
  Device& device;
  const Options& options;
  bool partner_is_rxe;

  [[nodiscard]] int rank() const { return options.rank; }
  void barrier(std::string_view tag) const { control.barrier(tag); }
};

/// Registered memory.
class Buffer {
 public:
  Buffer(const Device& device, std::size_t bytes, int rights);

  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_.get(), size_}; }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t offset, std::size_t length) {
    return bytes().subspan(offset, length);
  }
  [[nodiscard]] std::uint64_t word(std::size_t offset) const;
  void set_word(std::size_t offset, std::uint64_t value);
  [[nodiscard]] ibv_sge piece(std::size_t offset, std::size_t length) const;
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes_.get()); }
  [[nodiscard]] std::uint32_t remote_key() const { return region_->rkey; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{4096}); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t size_;
  Owned<ibv_mr, ibv_dereg_mr> region_;
};

/// Bytes that depend on their place and on a seed.
void fill(std::span<std::byte> bytes, std::uint64_t seed);
/// Throws if the bytes differ from fill()'s; names the first such byte.
void expect_filled(std::span<const std::byte> bytes, std::uint64_t seed, std::string_view what);
void expect_equal(std::span<const std::byte> bytes, std::span<const std::byte> wanted, std::string_view what);
/// The value of bytes that nobody may change.
inline constexpr std::byte kUntouched{0xE5};
void clear(std::span<std::byte> bytes);
void expect_untouched(std::span<const std::byte> bytes, std::string_view what);

struct Request {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::vector<ibv_sge> from{};  ///< or into
  std::size_t remote_offset = 0;
  std::uint64_t id = 0;
  unsigned flags = IBV_SEND_SIGNALED;
  std::uint32_t immediate = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::optional<std::uint32_t> key{};  ///< default: the partner's
};

struct LinkOptions {
  int rights = kAllRights;      ///< of the queue pair
  std::uint8_t rnr_retry = 7;   ///< 7: for ever
  std::uint8_t rnr_timer = 10;  ///< 0.32 ms
  std::uint8_t retry_count = 7;
  std::uint8_t timeout = 0;            ///< 0: as of Options
  std::uint8_t reads = 4;              ///< READs and atomics that may be on their way
  std::uint32_t first_psn = 0xfffff0;  ///< they wrap around soon
  unsigned send_depth = 64;
  unsigned receive_depth = 128;
  ibv_srq* shared_receives = nullptr;
  ibv_comp_channel* channel = nullptr;  ///< of both completion queues
};

/// A reliable connection, with completion queues of its own.
class Link {
 public:
  /// Both peers create one at the same time. The partner may access `shared`, which must outlive the link.
  Link(const Session& session, Buffer& shared, const LinkOptions& options);

  void post(const Request& request) { post(std::span(&request, 1)); }
  /// Posts the requests as one list.
  void post(std::span<const Request> requests);
  /// Returns the result of ibv_post_send().
  [[nodiscard]] int try_to_post(std::span<const Request> requests);
  void post_receive(std::uint64_t id, std::initializer_list<ibv_sge> into);

  /// Waits for the next completion of a request, or of a receive.
  [[nodiscard]] ibv_wc completion() const;
  [[nodiscard]] ibv_wc received() const;
  [[nodiscard]] ibv_cq* send_queue() const { return sends_.get(); }
  [[nodiscard]] ibv_cq* receive_queue() const { return receives_.get(); }
  [[nodiscard]] ibv_qp* queue_pair() const { return pair_.get(); }
  [[nodiscard]] ibv_qp_state state() const;
  /// Size of the partner's memory.
  [[nodiscard]] std::size_t remote_size() const { return remote_size_; }
  [[nodiscard]] std::uint32_t remote_key() const { return remote_key_; }
  void destroy() { pair_.reset(); }

 private:
  Owned<ibv_cq, ibv_destroy_cq> sends_;
  Owned<ibv_cq, ibv_destroy_cq> receives_;
  Owned<ibv_qp, ibv_destroy_qp> pair_;
  std::uint64_t remote_address_ = 0;
  std::size_t remote_size_ = 0;
  std::uint32_t remote_key_ = 0;
};

/// The present completions, at most 16.
[[nodiscard]] std::vector<ibv_wc> poll(ibv_cq* queue);
/// Waits for a completion.
[[nodiscard]] ibv_wc next(ibv_cq* queue);
void expect_status(const ibv_wc& completion, ibv_wc_status wanted, std::string_view what);
/// The completion must be a success of this request with this opcode.
void expect_done(const ibv_wc& completion, std::uint64_t id, ibv_wc_opcode opcode, std::string_view what);
void expect_nothing_more(ibv_cq* queue, std::string_view what);

[[nodiscard]] ibv_mtu mtu_of(std::size_t bytes);
/// The route to a GID through this device.
[[nodiscard]] ibv_ah_attr route_to(const Device& device, const ibv_gid& gid);

}  // namespace sidelatch::peer
