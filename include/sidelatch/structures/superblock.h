// Superblock: what a structure in remote memory is. It lies at the head of the structure's memory at each memory node.
//
//   HashTable table(scheme, options, memory);        // says what the client expects
//   co_await table.get(client, 42, value);           // a client's first operation reads the superblock, and compares
//
// Zeroed memory is an empty structure: the client that comes first writes the superblock. Every later client, in any
// process, must expect the same: the kind of structure, the format's version, the scheme, the layout, the number of
// memory nodes and all parameters that decide where the bytes lie. Otherwise its operation throws StructureError with
// both descriptions, and nothing is changed.
//
// The first word is a checksum of the rest, and it is put there by a CAS. So of two clients that come at once with
// different expectations one wins, and the other one is refused.
//
// Thread-safety: values.
#pragma once

#include <sidelatch/fabric/task.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/structures/client.h>
#include <sidelatch/sync/layout.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sidelatch::structures {

/// The superblock's share of a structure's memory: a page, so that what follows keeps its place in a NIC's lock table.
inline constexpr std::uint64_t kSuperblockBytes = 4096;

struct Superblock {
  static constexpr std::uint32_t kMagic = 0x54414c53;  ///< "SLAT"
  /// Of all structures: 2 since nodes of B-trees say what they have absorbed.
  static constexpr std::uint32_t kVersion = 2;
  static constexpr std::size_t kParameters = 6;
  static constexpr std::size_t kNameBytes = 48;

  std::uint64_t checksum = 0;  ///< CRC64 of the rest
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::array<char, kNameBytes> kind{};    ///< "hash table" or "B-tree"
  std::array<char, kNameBytes> scheme{};  ///< the scheme's name
  std::uint32_t layout = 0;               ///< a LayoutKind
  std::uint32_t needs = 0;                ///< RecordNeeds::code() of the scheme
  std::uint64_t memory_node = 0;
  std::uint64_t memory_nodes = 0;
  std::array<std::array<char, kNameBytes>, kParameters> names{};  ///< of the parameters; empty ones at the end
  std::array<std::uint64_t, kParameters> values{};

  friend bool operator==(const Superblock&, const Superblock&) = default;

  void set_kind(std::string_view text);
  void set_scheme(std::string_view text);
  /// Adds a parameter; at most kParameters.
  void add(std::string_view name, std::uint64_t value);
  /// Call it when all else is set.
  void seal();
  [[nodiscard]] bool is_sealed() const;
  /// "a B-tree of format 2 over optimistic/farm, layout padded, memory node 0 of 1, with node_bytes 512, ..."
  [[nodiscard]] std::string describe() const;
};
static_assert(sizeof(Superblock) <= kSuperblockBytes && sizeof(Superblock) % 8 == 0);

/// Compares the superblock at the head of each memory node's part of `memory` with the one expected there. Writes it
/// where the bytes of a superblock are all zero, but only if no memory node holds something else. Throws StructureError
/// that names both if they differ, and FabricError. In a world that explores it touches no memory, and waits only if
/// another task of the client may go on meanwhile. Both spans must live until the task ends.
[[nodiscard]] fabric::Task<void> open_superblocks(Client& client, std::span<const fabric::RemoteSpan> memory,
                                                  std::span<const Superblock> expected);

/// The size of a client's buffers that open_superblocks() needs.
inline constexpr std::uint64_t kSuperblockBuffer = sync::RecordShape::whole_lines(sizeof(Superblock));

}  // namespace sidelatch::structures
