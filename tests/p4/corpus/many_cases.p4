// More labels of a switch, and more branches, than what C++ compilers let nest. Also registers of bool, and numbers as
// labels of an enumeration.
#include "pipeline.p4"
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define AGAIN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDREDS(X) AGAIN(X, 1) AGAIN(X, 2) AGAIN(X, 3) AGAIN(X, 4)
#define LABEL(n) n: { h.h.a = n; }
#define LABELS(n) TEN(LABEL, n)
#define BRANCH(n) else if (h.h.a == n) { h.h.b = 16w##n + 1; }
#define BRANCHES(n) TEN(BRANCH, n)
enum bit<8> Kind { one = 1, two = 2 }
header h_t { Kind kind; bit<16> a; bit<16> b; }
struct H { h_t h; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.h); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  register<bool>(4) seen;
  action labels() {
    switch (h.h.b) {
      HUNDREDS(LABELS)
      default: { h.h.a = 0xffff; }
    }
  }
  apply {
    standard.egress_spec = 2;
    bool before;
    seen.read(before, (bit<32>)(bit<8>)h.h.kind);
    seen.write((bit<32>)(bit<8>)h.h.kind, !before);
    switch (h.h.kind) {
      1: { labels(); }
      Kind.two: { if (h.h.a == 0) { h.h.b = 0; } HUNDREDS(BRANCHES) else { h.h.b = 0xffff; } }
      3: { h.h.b = before ? 16w1 : 2; }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN
