// BROKEN, on purpose: the write of TODS 2025, section 5.5, as published. It corrupts tuples. It is here to be timed
// beside the safe one (`sidelatch bench switch-latency` and `switch-optimistic`), and as a specimen of a search that
// shows what happens (tests/switchsync/published_search_test.cpp; docs/switch.md). Run nothing on it.
//
// All is as in switch_optimistic.p4, but
//   CAS the word, 2^64 - 2 -> 2^64 - 1   latches whatever version it has, if that is even: table 2's "try-latch"
//   WRITE the tuple                      by the holder, who need not have READ it
// A latch waits for nothing at the memory node, so the WRITE of the holder before may be placed over the next one.
#define AS_PUBLISHED
#include "../switch_optimistic.p4"
