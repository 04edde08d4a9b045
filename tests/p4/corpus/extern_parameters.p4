// Controls and functions that are given registers and counters.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> index; bit<8> value; }
struct H { op_t o; }
struct M {}
register<bit<8>>(16) everywhere;
bit<8> exchanged(register<bit<8>> store, in bit<8> index, in bit<8> value) {
  bit<8> old;
  store.read(old, (bit<32>)index);
  store.write((bit<32>)index, value);
  return old;
}
// Of any type: the register says which.
T swapped<T>(register<T> store, in T value) {
  T old;
  store.read(old, 0);
  store.write(0, value);
  return old;
}
bit<8> swapped_twice<T>(register<T> store, in T value, register<bit<8>> other) {
  swapped<T>(store, value);
  return swapped(other, 7);
}
// With a place of its own and an argument of its constructor.
control Sum(in bit<8> index, register<bit<8>> store, inout bit<8> value, counter seen)(bit<8> step) {
  register<bit<8>>(1) calls;
  action count() { seen.count((bit<32>)index); }
  table always { key = { value : exact; } actions = { count; NoAction; } const entries = { 0xff : NoAction(); } default_action = count(); }
  apply {
    bit<8> called;
    calls.read(called, 0);
    calls.write(0, called + 1);
    always.apply();
    bit<8> old;
    store.read(old, (bit<32>)index);
    value = value + old + step;
    store.write((bit<32>)index, value);
    value = value ^ called;
  }
}
control Inner(register<bit<8>> store, inout bit<8> value) { apply { value = exchanged(store, 1, value); } }
control Outer(inout bit<8> value, register<bit<8>> given) {
  Inner() inner;
  apply { inner.apply(given, value); }
}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  register<bit<8>>(16) a;
  register<bit<8>>(16) b;
  register<int<16>>(1) wide;
  counter(16, CounterType.packets) seen;
  Sum(0) first;
  Sum(0x10) second;
  Outer() outer;
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.o.value = exchanged(a, h.o.index, h.o.value); }
      1: { h.o.value = exchanged(b, h.o.index, h.o.value); }
      2: { first.apply(h.o.index, a, h.o.value, seen); }
      3: { second.apply(store = b, value = h.o.value, seen = seen, index = h.o.index); }
      4: { outer.apply(h.o.value, everywhere); }
      5: { h.o.value = exchanged(everywhere, h.o.index, h.o.value); }
      6: { Inner.apply(a, h.o.value); }
      8: { h.o.value = swapped(a, h.o.value); swapped(wide, -2); }
      9: { h.o.value = swapped_twice(wide, 16s3, a); }
      7: { Inner.apply(b, h.o.value); first.apply(h.o.index, a, h.o.value, seen); }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.o); } }
MAIN
