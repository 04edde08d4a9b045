// Arguments that are named, and those that are left out: of constructors, of the package, of actions in entries.
#include <core.p4>
#include <v1model.p4>

header bytes_t {
  bit<8> kind;
  bit<8> first;
  bit<8> second;
  bit<8> third;
}

struct headers_t {
  bytes_t bytes;
}

struct metadata_t {
  bit<8> skipped;
}

const bit<8> usual = 2;

bit<8> sum(in bit<8> one, in bit<8> other = usual) {
  return one + other;
}

// Divides: the order of its arguments counts.
control quotient(inout bit<8> value)(bit<8> times, bit<8> by = usual) {
  apply {
    value = value * times / by;
  }
}

parser Parse(packet_in packet, out headers_t headers, inout metadata_t metadata, inout standard_metadata_t standard)(
    bit<8> mark, bool marks) {
  state start {
    packet.extract(headers.bytes);
    if (marks) {
      headers.bytes.third = mark;
    }
    transition accept;
  }
}

control Verify(inout headers_t headers, inout metadata_t metadata) {
  apply {}
}

control In(inout headers_t headers, inout metadata_t metadata, inout standard_metadata_t standard)(bit<9> to,
                                                                                                   bit<8> plus) {
  const bit<8> usual = 9;  // not the one that the defaults name
  quotient(by = 4, times = 12) threefold;
  quotient(times = 1) half;
  quotient(10) fivefold;
  register<bit<8>>(size = 4) kept;
  counter(type = CounterType.packets, size = 2) seen;

  action set(inout bit<8> place, bit<8> high, bit<8> low = 3) {
    place = high * 16 + low;
  }

  table by_kind {
    key = {
      headers.bytes.kind : exact;
    }
    actions = {
      set(headers.bytes.second);
      NoAction;
    }
    const entries = {
      1 : set(low = 5, place = headers.bytes.second, high = 6);
      2 : set(high = 7, place = headers.bytes.second);
      3 : set(headers.bytes.second, 8, 9);
    }
    const default_action = set(place = headers.bytes.second, low = 1, high = 2);
  }

  apply {
    standard.egress_spec = to;
    threefold.apply(headers.bytes.first);
    half.apply(headers.bytes.first);
    fivefold.apply(headers.bytes.first);
    by_kind.apply();
    kept.write(3, headers.bytes.first);
    seen.count(1);
    headers.bytes.third = sum(headers.bytes.third) - 2 + plus;
  }
}

control Out(inout headers_t headers, inout metadata_t metadata, inout standard_metadata_t standard) {
  apply {}
}

control Deparse(packet_out packet, in headers_t headers) {
  apply {
    packet.emit(headers);
  }
}

V1Switch(p = Parse(marks = true, mark = 0x40),
         vr = Verify(),
         eg = Out(),
         ig = In(plus = 2, to = 9w5),
         ck = Verify(),
         dep = Deparse()) main;
