// Generic structures and functions, functions with one name, `...` in lists, slices by their width, a value_set,
// a structure that the parser looks ahead at, and one within the headers.
#include <core.p4>
#include <v1model.p4>

header test_t {
    bit<8> number;
    bit<8> a;
    bit<8> b;
    bit<16> result;
}

header other_t {
    bit<8> x;
}

struct others_t {
    other_t other;
}

struct headers_t {
    test_t test;
    others_t others;
}

enum bit<8> number_t { six = 6, nine = 9 }

struct peek_t {
    number_t number;
    bit<7> half;
    bool odd;
}

struct metadata_t {
    peek_t peek;
}

struct pair_t<T, U> {
    T first;
    U second;
}

struct inner_t {
    bit<8> x;
    bool flag;
}

enum colour_t { red, green }

struct outer_t {
    bit<8> a;
    inner_t inner;
    colour_t colour;
    other_t other;
    int<8> b;
}

T larger<T>(in T a, in T b) {
    return a < b ? b : a;
}

U second_of<T, U>(in T first, in U second) {
    return second;
}

T first_of<T, U>(in pair_t<T, U> pair) {
    return pair.first;
}

U second_of_pair<T, U>(in pair_t<pair_t<T, U>, bool> pair) {
    return pair.first.second;
}

bit<8> pick(in bit<8> a) {
    return a;
}

bit<8> pick(in bit<8> a, in bit<8> b) {
    return b;
}

bit<8> pick(in bit<8> x, in bit<8> y, in bit<8> z = 9) {
    return z;
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    value_set<bit<8>>(4) numbers;
    value_set<tuple<bit<8>, bit<8>>>(4) pairs;
    state start {
        m.peek = packet.lookahead<peek_t>();
        packet.extract(h.test);
        transition select(h.test.number) {
            numbers: wrong;
            default: next;
        }
    }
    state next {
        transition select(h.test.number, h.test.a) {
            pairs: wrong;
            (_, _): accept;
        }
    }
    state wrong {
        h.test.number = 0xff;
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {}
}

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        bit<16> r = 0;
        if (h.test.number == 1) {
            pair_t<bit<8>, bit<16>> p = { h.test.a, 16w0x1234 };
            pair_t<bit<8>, bit<16>> q = p;
            pair_t<pair_t<bit<8>, bit<16>>, bool> deep = { q, true };
            r = deep.second && p == q ? deep.first.second + (bit<16>)q.first : 0;
        } else if (h.test.number == 2) {
            r = (bit<16>)larger(h.test.a, h.test.b);
        } else if (h.test.number == 3) {
            r = (bit<16>)(bit<8>)larger((int<8>)h.test.a, (int<8>)h.test.b);
        } else if (h.test.number == 4) {
            r = second_of(h.test.a, r | 0x100) + (bit<16>)larger<bit<8>>(1, h.test.b);
        } else if (h.test.number == 5) {
            r = pick(h.test.a) ++ pick(b = h.test.b, a = h.test.a);
            r = r + (bit<16>)pick(y = 1, x = 2);
        } else if (h.test.number == 6) {
            outer_t o = { a = 7, inner = { 3, true }, colour = colour_t.green, other = { 1 }, b = -1 };
            o = { h.test.a, ... };
            bool rest = o.inner.x == 0 && !o.inner.flag && o.colour == colour_t.red && !o.other.isValid() && o.b == 0;
            r = rest ? 8w1 ++ o.a : 0;
        } else if (h.test.number == 7) {
            outer_t o = { b = 5, inner = { flag = true, ... }, ... };
            bit<8> nothing = ...;
            r = o.inner.flag && o.inner.x == nothing ? (bit<16>)(bit<8>)o.b : 0;
        } else if (h.test.number == 8) {
            r[4 +: 8] = h.test.a[0 +: 4] ++ h.test.b[4 +: 4];
            r[15:12] = (4w5 ++ h.test.a)[8 +: 4];
        } else if (h.test.number == 10) {
            h.others.other = { h.test.b };
        } else if (h.test.number == 11) {
            pair_t<pair_t<bit<8>, bit<16>>, bool> deep = { { h.test.a, 16w0x1200 }, true };
            r = second_of_pair(deep) + (bit<16>)first_of(first_of(deep));
        } else if (m.peek.number == number_t.nine) {
            r = (bit<16>)m.peek.half << (m.peek.odd ? 8w8 : 4);
        }
        h.test.result = r;
    }
}

control Finish(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {}
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply {}
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h);
    }
}

V1Switch(Parse(), Verify(), Serve(), Finish(), Compute(), Deparse()) main;
