#include "builtin.h"

namespace sidelatch::p4 {

namespace {

// Source: the P4_16 language specification, appendix "P4 core library". Programs test the names of the guards.
constexpr std::string_view kCore = R"(#ifndef _CORE_P4_
#define _CORE_P4_
error { NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort, ParserTimeout, ParserInvalidArgument }
extern packet_in {
  void extract<T>(out T hdr);
  T lookahead<T>();
  void advance(in bit<32> sizeInBits);
  bit<32> length();
}
extern packet_out {
  void emit<T>(in T hdr);
}
extern void verify(in bool check, in error toSignal);
@noWarn("unused") action NoAction() {}
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);
match_kind { exact, ternary, lpm }
#endif
)";

// Source: the declarations of v1model that the reference compiler 1.2.5 accepts, and the documentation of the
// reference switch.
constexpr std::string_view kV1model = R"(#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_
#include <core.p4>
#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif
match_kind { range, optional, selector }
const bit<32> __v1model_version = V1MODEL_VERSION;
#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif
struct standard_metadata_t {
  bit<9> ingress_port;
  bit<9> egress_spec;
  bit<9> egress_port;
  bit<32> instance_type;
  bit<32> packet_length;
  bit<32> enq_timestamp;
  bit<19> enq_qdepth;
  bit<32> deq_timedelta;
  bit<19> deq_qdepth;
  bit<48> ingress_global_timestamp;
  bit<48> egress_global_timestamp;
  bit<16> mcast_grp;
  bit<16> egress_rid;
  bit<1> checksum_error;
  error parser_error;
  bit<3> priority;
}
enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }
enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }
enum CloneType { I2E, E2E }
#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2
#if V1MODEL_VERSION >= 20200408
extern counter<I> { counter(bit<32> size, CounterType type); void count(in I index); }
extern meter<I> { meter(bit<32> size, MeterType type); void execute_meter<T>(in I index, out T result); }
extern register<T, I> {
  register(bit<32> size);
  void read(out T result, in I index);
  void write(in I index, in T value);
}
#else
extern counter { counter(bit<32> size, CounterType type); void count(in bit<32> index); }
extern meter { meter(bit<32> size, MeterType type); void execute_meter<T>(in bit<32> index, out T result); }
extern register<T> {
  register(bit<32> size);
  void read(out T result, in bit<32> index);
  void write(in bit<32> index, in T value);
}
#endif
extern direct_counter { direct_counter(CounterType type); void count(); }
extern direct_meter<T> { direct_meter(MeterType type); void read(out T result); }
extern action_profile { action_profile(bit<32> size); }
extern action_selector { action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth); }
extern Checksum16 { Checksum16(); bit<16> get<D>(in D data); }
extern void random<T>(out T result, in T lo, in T hi);
extern void digest<T>(in bit<32> receiver, in T data);
extern void mark_to_drop(inout standard_metadata_t standard_metadata);
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate_preserving_field_list(bit<8> index);
extern void truncate(in bit<32> length);
extern void assert(in bool check);
extern void assume(in bool check);
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);
parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
control Deparser<H>(packet_out b, in H hdr);
package V1Switch<H, M>(Parser<H, M> p, VerifyChecksum<H, M> vr, Ingress<H, M> ig, Egress<H, M> eg,
                       ComputeChecksum<H, M> ck, Deparser<H> dep);
#endif
)";

}  // namespace

std::optional<std::string_view> builtin_source(std::string_view file) {
  if (file == "core.p4") {
    return kCore;
  }
  if (file == "v1model.p4") {
    return kV1model;
  }
  return std::nullopt;
}

}  // namespace sidelatch::p4
