// The parts that most programs of the corpus do not care about.
#include <core.p4>
#include <v1model.p4>

#define STANDARD inout standard_metadata_t standard
#define NO_CHECKSUMS(H, M) \
  control Verify(inout H h, inout M m) { apply {} } \
  control Compute(inout H h, inout M m) { apply {} }
#define NO_EGRESS(H, M) \
  control Out(inout H h, inout M m, STANDARD) { apply {} }
#define MAIN V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
