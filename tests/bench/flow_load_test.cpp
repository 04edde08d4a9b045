#include "bench/flow_load.h"

#include <gtest/gtest.h>

namespace sidelatch::bench {
namespace {

TEST(BatchRate, DoesNotDependOnHowManyWholeBatchesFit) {
  BatchRate rate;
  for (int batch = 0; batch < 7; ++batch) {
    for (int item = 0; item < 3; ++item) {
      rate.count(123 + 50.0 * batch, 10);  // all items of a batch come at its end
    }
    if (batch > 0) {
      for (const double to_ns : {123 + 50.0 * batch, 123 + 50.0 * batch + 49}) {
        EXPECT_DOUBLE_EQ(rate.per_ns(100, to_ns), 30.0 / 50) << batch;
      }
    }
  }
}

TEST(BatchRate, IsNothingBeforeASecondBatch) {
  BatchRate rate;
  EXPECT_EQ(rate.per_ns(0, 4), 0);
  rate.count(0, 10);
  rate.count(0, 10);
  EXPECT_EQ(rate.per_ns(0, 4), 0);
  rate.count(4, 10);
  EXPECT_EQ(rate.per_ns(0, 4), 2.5);
}

// Two batches that come at once would have a high rate, whatever the rest of the time.
TEST(BatchRate, CountsTheTimeInWhichNothingCame) {
  BatchRate rate;
  rate.count(500, 10);
  rate.count(510, 10);
  EXPECT_DOUBLE_EQ(rate.per_ns(500, 520), 10.0 / 10);
  EXPECT_DOUBLE_EQ(rate.per_ns(0, 510), 10.0 / 500);
  EXPECT_DOUBLE_EQ(rate.per_ns(0, 1000), 10.0 / 980);
}

}  // namespace
}  // namespace sidelatch::bench
