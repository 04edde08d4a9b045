// Pool: objects of one kind at a memory node, which all clients may take and give back.
//
//   const Pool::Taken taken = co_await pool.take(client);
//   ... taken.object ...                                          // its number, if taken.outcome is done
//   const Outcome outcome = co_await pool.give_back(client, taken.object);
//
// A pool consists of a control record, which is latched for every change, a word per object that links the free
// objects, and a mark up to which objects were ever handed out. Zeroed memory is a pool in which every object is free.
//
// The pool does not look at an object's content and does not change it. A client that has kept the number of a returned
// object can still read it. Structures detect that by its content (fence keys, its owner), so a returned object can be
// reused at once.
//
// A client that dies leaves the objects that it has taken and not used. A client with an owner id marks them as its
// own: the mark takes the place of the link. So others find them (marked()), and take them (claim()). A client that
// dies between taking an object and marking it, or while it gives one back, leaks that object, and nothing else.
//
// Thread-safety: no state; one pool serves any number of tasks.
#pragma once

#include <sidelatch/structures/client.h>
#include <sidelatch/sync/scheme.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sidelatch::structures {

class Pool {
 public:
  /// Bytes for `count` objects. Throws std::invalid_argument for more than 2^48.
  [[nodiscard]] static std::uint64_t bytes_needed(const sync::Scheme& scheme, std::uint64_t count);
  /// Bytes of a client's buffers for the control record.
  [[nodiscard]] static std::uint64_t buffer_bytes(const sync::Scheme& scheme);
  /// `memory`: of memory node number `memory_node`, at least bytes_needed() bytes, else std::out_of_range or
  /// std::invalid_argument. The first `reserved` objects are never handed out; there are as many, else
  /// std::invalid_argument. The scheme must outlive the pool.
  Pool(const sync::Scheme& scheme, const fabric::RemoteSpan& memory, std::size_t memory_node, std::uint64_t count,
       std::uint64_t reserved = 0);

  struct Taken {
    Outcome outcome = Outcome::full;  ///< done, full, timed_out
    std::uint64_t object = 0;         ///< the first object taken
    std::uint64_t count = 0;
  };
  /// One object that nobody else has, or up to `most` with consecutive numbers, if none were given back. Throws
  /// StructureError for a pool that is damaged.
  [[nodiscard]] fabric::Task<Taken> take(Client& client, std::uint64_t most = 1) const;
  /// Throws std::out_of_range for an object that the pool does not have. done or timed_out.
  [[nodiscard]] fabric::Task<Outcome> give_back(Client& client, std::uint64_t object) const;

  /// Marks an object as this client's own, if it has an owner id; does not wait. Call it before an object that somebody
  /// else has taken leaves the structure: from then on the object is this client's.
  [[nodiscard]] fabric::Task<void> mark(Client& client, std::uint64_t object) const;
  /// The objects that carry that owner's mark, whether they are in use or not.
  [[nodiscard]] fabric::Task<std::vector<std::uint64_t>> marked(Client& client, std::uint16_t owner) const;
  /// Makes an object with that owner's mark this client's own. False: it carries another mark by now. The caller knows
  /// that the owner is revoked, and that the object is not in use.
  [[nodiscard]] fabric::Task<bool> claim(Client& client, std::uint64_t object, std::uint16_t owner) const;

  /// Numbers of the objects that may be taken again, and the number of objects that were ever handed out. For checkers:
  /// nobody else may change the pool meanwhile. Throws StructureError for a pool that is damaged.
  struct Contents {
    std::vector<std::uint64_t> free;
    std::uint64_t mark = 0;
  };
  [[nodiscard]] fabric::Task<Contents> contents(Client& client) const;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  [[nodiscard]] fabric::Task<sync::ExclusiveGuard> latch(Client& client) const;
  [[nodiscard]] fabric::Task<std::uint64_t> read_link(Client& client, const fabric::RingBuffer& word,
                                                      std::uint64_t object) const;
  [[nodiscard]] fabric::Task<void> write_link(Client& client, const fabric::RingBuffer& word, std::uint64_t object,
                                              std::uint64_t link) const;
  [[nodiscard]] fabric::Task<void> put_marks(Client& client, const fabric::RingBuffer& word, Taken taken) const;
  [[noreturn]] void throw_damaged(const char* what) const;

  const sync::Scheme* scheme_;
  sync::ObjectArray control_;
  fabric::RemoteSpan links_;
  std::size_t memory_node_;
  std::uint64_t count_;
  std::uint64_t reserved_;
};

}  // namespace sidelatch::structures
