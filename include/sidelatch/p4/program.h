// A compiled P4 program, as the switch and the control plane see it.
//
//   const auto program = p4::compile_file("switch.p4");
//   p4::State state(program->info());
//   state.table("ingress.ipv4").add({{.value = 0x0a000001}}, "forward", {3});
//
// A Program is immutable and may be shared by threads. Everything that packets or the control plane change is in a
// State, a plain value that can be copied, compared and hashed.
#pragma once

#include <sidelatch/p4/bits.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::p4 {

enum class MatchKind : std::uint8_t { exact, ternary, lpm, range, optional };
[[nodiscard]] std::string_view name(MatchKind kind) noexcept;

struct KeyInfo {
  std::string name;
  MatchKind kind = MatchKind::exact;
  unsigned width = 0;
};

struct ParameterInfo {
  std::string name;
  unsigned width = 0;
};

struct ActionInfo {
  std::string name;
  std::vector<ParameterInfo> parameters;  ///< those that an entry gives
  bool only_default = false;              ///< @defaultonly
  bool only_entries = false;              ///< @tableonly
};

/// What one key of an entry matches.
struct Match {
  U128 value = 0;
  /// exact: ignored. ternary, lpm: the bits that count; optional: 0 or all. range: the highest value.
  U128 mask = 0;
};

struct ActionCall {
  std::size_t action = 0;  ///< in TableInfo::actions
  std::vector<U128> arguments;
  [[nodiscard]] bool operator==(const ActionCall&) const = default;
};

struct Entry {
  std::vector<Match> keys;
  std::size_t action = 0;  ///< in TableInfo::actions
  std::vector<U128> arguments;
  /// Of two ternary or range entries that match, the one with the higher priority counts; of equal ones the older.
  /// Entries that the program gives have 9999, 9998, ... in their order, or 10000 - N by @priority(N): the reference
  /// switch counts from 1 downwards in importance, and its packet tests turn a priority P into 10000 - P.
  int priority = 0;
  /// Of a table with an action_selector: the group, of which the hash chooses one for each packet. If it is empty, the
  /// action above is all that there is; else `action` and `arguments` are not used.
  std::vector<ActionCall> group;
};

struct TableInfo {
  std::string name;
  std::vector<KeyInfo> keys;
  std::vector<ActionInfo> actions;
  std::size_t default_action = 0;
  std::vector<U128> default_arguments;
  std::vector<Entry> entries;  ///< those that the program gives
  bool constant_entries = false;
  bool constant_default = false;
  std::size_t size = 1024;
  bool has_selector = false;  ///< entries may have a group of actions
};

struct RegisterInfo {
  std::string name;
  unsigned width = 0;
  std::size_t size = 0;
};

enum class CounterKind : std::uint8_t { packets, bytes, both };

struct CounterInfo {
  std::string name;
  CounterKind kind = CounterKind::both;
  std::size_t size = 0;  ///< of a direct counter 0: it grows with its table
  int table = -1;        ///< the table of a direct counter
};

struct ProgramInfo {
  std::string name;
  std::vector<TableInfo> tables;
  std::vector<RegisterInfo> registers;
  std::vector<CounterInfo> counters;
  std::vector<std::string> errors;  ///< the names of error values, by number
};

/// Fields of the standard metadata that the switch sets or reads.
enum class MetadataField : std::uint8_t {
  ingress_port,
  egress_spec,
  egress_port,
  instance_type,
  packet_length,
  enq_timestamp,
  enq_qdepth,
  deq_timedelta,
  deq_qdepth,
  ingress_global_timestamp,
  egress_global_timestamp,
  mcast_grp,
  egress_rid,
  checksum_error,
  parser_error,
  priority,
};
inline constexpr std::size_t kMetadataFields = 16;

class State;

/// What the stages of a program tell the switch about one packet, and the other way round. The switch clears it.
struct PacketContext {
  std::span<const std::byte> packet;  ///< as it arrived at the parser
  std::size_t parsed_bytes = 0;       ///< the payload begins here
  std::uint32_t length = 0;  ///< packet_length; setValid() and setInvalid() change it, as in the reference switch
  bool clone = false;
  std::uint32_t clone_session = 0;
  int clone_list = -1;  ///< the field list to keep; -1: none
  bool resubmit = false;
  int resubmit_list = -1;
  bool recirculate = false;
  int recirculate_list = -1;
  bool truncate = false;
  std::uint32_t truncate_bytes = 0;
  std::uint64_t* random_state = nullptr;
  std::size_t digests = 0;
  bool assertion_failed = false;

  /// truncate(): of several, the smallest length counts, as in the reference switch.
  void truncate_to(std::uint32_t bytes) noexcept {
    truncate_bytes = truncate && truncate_bytes < bytes ? truncate_bytes : bytes;
    truncate = true;
  }
};

/// One frame holds the headers and metadata of one packet on its way through the pipeline. It has `frame_bytes()`
/// bytes, aligned for U128.
class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;

  [[nodiscard]] virtual const ProgramInfo& info() const = 0;
  [[nodiscard]] virtual std::size_t frame_bytes() const = 0;
  /// The part of a frame that a copy of a packet needs; it comes first.
  [[nodiscard]] virtual std::size_t kept_bytes() const = 0;

  /// Makes all headers invalid and all fields 0.
  virtual void clear(std::byte* frame) const = 0;
  /// Makes all headers invalid, and keeps the metadata.
  virtual void clear_headers(std::byte* frame) const = 0;
  [[nodiscard]] virtual std::uint64_t get(const std::byte* frame, MetadataField field) const = 0;
  virtual void set(std::byte* frame, MetadataField field, std::uint64_t value) const = 0;
  /// Makes all metadata 0, and takes those with @field_list(list) from `from`; list -1: none. `from` may be `frame`.
  virtual void keep_metadata(std::byte* frame, const std::byte* from, int list) const = 0;

  /// The parser, which sets parser_error.
  virtual void parse(State& state, std::byte* frame, PacketContext& packet) const = 0;
  /// VerifyChecksum, which sets checksum_error, and Ingress.
  virtual void ingress(State& state, std::byte* frame, PacketContext& packet) const = 0;
  virtual void egress(State& state, std::byte* frame, PacketContext& packet) const = 0;
  /// ComputeChecksum and the deparser. Writes the headers to `out` and returns their bytes; the payload is not copied.
  /// Throws std::length_error if they do not fit.
  virtual std::size_t deparse(State& state, std::byte* frame, PacketContext& packet,
                              std::span<std::byte> out) const = 0;
};

}  // namespace sidelatch::p4
