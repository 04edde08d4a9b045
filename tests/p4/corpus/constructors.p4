// Constructors that are arguments of constructors: instances without a name of their own. Each is its own one.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> a; bit<8> b; bit<8> c; }
struct H { op_t o; op_t next; op_t last; }
struct M {}
control Add(inout bit<8> x)(bit<8> step) {
  register<bit<8>>(1) calls;
  apply {
    bit<8> before;
    calls.read(before, 0);
    calls.write(0, before + 1);
    x = x + step + before;
  }
}
control Twice(inout bit<8> x)(Add add) { apply { add.apply(x); add.apply(x); } }
control Change(inout bit<8> x);  // the type of every control with this parameter
control ChangeAny<T>(inout T x);
control Thrice(inout bit<8> x)(Change change) { apply { change.apply(x); change.apply(x); change.apply(x); } }
control Once(inout bit<8> x)(ChangeAny<bit<8>> change) { apply { change.apply(x); } }
parser Reads(packet_in b, out op_t o);
control Both(inout bit<8> x, inout bit<8> y)(Twice one, Add other) { apply { one.apply(x); other.apply(y); } }
control Store(inout bit<8> x)(register<bit<8>> store, counter seen) {
  apply {
    bit<8> old;
    store.read(old, 0);
    store.write(0, x);
    seen.count(1);
    x = old;
  }
}
control Given(inout bit<8> x)(Add add = Add(0x40)) { apply { add.apply(x); } }
parser Read(packet_in b, out op_t o)(bit<8> mark) {
  state start { b.extract(o); o.c = o.c + mark; transition accept; }
}
parser ReadBy(packet_in b, out op_t o)(Reads read) { state start { read.apply(b, o); transition accept; } }
parser Parse(packet_in b, out H h, inout M m, STANDARD)(ReadBy last) {
  ReadBy(Read(1)) next;
  state start {
    b.extract(h.o);
    transition select(h.o.op) { 0x20 .. 0x2f: more; default: accept; }
  }
  state more { next.apply(b, h.next); last.apply(b, h.last); transition accept; }
}
control In(inout H h, inout M m, STANDARD)(Add add, bit<8> one) {
  Twice(Add(4)) by_position;
  Twice(add = Add(step = 0x10)) by_name;
  Both(Twice(Add(1)), Add(2)) another;
  Both(other = Add(2), one = Twice(Add(1))) nested;
  Store(register<bit<8>>(1), counter(2, CounterType.packets)) store;
  Add(1) shared;
  Thrice(shared) thrice;
  Once(shared) once;
  Given() given;
  Given(Add(0x50)) given_another;
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { by_position.apply(h.o.a); }
      1: { by_name.apply(h.o.a); }
      2: { nested.apply(h.o.a, h.o.b); }
      6: { another.apply(h.o.a, h.o.b); }
      3: { store.apply(h.o.a); }
      4: { given.apply(h.o.a); given_another.apply(h.o.b); }
      7: { thrice.apply(h.o.a); once.apply(h.o.b); }
      5: { add.apply(h.o.a); h.o.b = one; }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(Parse(ReadBy(Read(2))), Verify(), In(Add(0x60), 7), Out(), Compute(), Deparse()) main;
