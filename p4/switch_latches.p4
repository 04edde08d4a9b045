// switch_atomics.p4 with latches of 32 bits, which a Tofino's stateful ALU can compare and swap: CAS of operands below 2^32,
// and READ; FETCH-ADD and WRITE are refused. Clients see words of 64 bits. latch-switch needs nothing else
// (sync/switch_latch.h).
//
// `sidelatch p4 check --fit tofino` accepts it; it was not compiled by the vendor's tool, and not run on hardware.
#define LATCHES_OF_32_BITS
#include "switch_atomics.p4"
