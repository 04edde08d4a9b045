// switch_optimistic.p4 for more tuples than the switch has versions for. A tuple is hot or cold.
//
// Hot: all is as in switch_optimistic.p4; the table `hot_tuples` names the tuple's version.
// Cold: the version is the tuple's word at the memory node, and nobody holds the tuple. A client may
//   READ the tuple or its word   the answer passes as it is if no tuple of the same group became hot meanwhile; else its
//                                word is 1
//   CAS the word                 the switch answers 2^64 - 1: the control plane must make the tuple hot first
// and not WRITE it. So it cannot change while it is cold, and a READ is whole.
//
// Making it hot and cold is the control plane's: switchsync/optimistic_switch.h.
#define CACHED_TUPLES
#include "switch_optimistic.p4"
