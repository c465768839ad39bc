#include "data/loading/synthetic.h"

#include "load_image.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

TEST_CASE("synthetic data repeats one batch, a different one for each rank", "[data]") {
  const SyntheticOptions options{
      .image = {1, 4, 4}, .classes = {3}, .batch_size = 5, .batches = 7, .seed = 1, .rank = 0};
  const auto first = synthetic(options);
  CHECK(first->size() == 35);
  CHECK(test::load(*first, 2).data == test::load(*first, 32).data);
  CHECK(test::load(*first, 2).label == test::load(*first, 32).label);
  CHECK(test::load(*first, 2).data != test::load(*first, 3).data);
  for (const float x : test::load(*first, 2).data) CHECK((x >= -1.0f && x <= 1.0f));
  SyntheticOptions other = options;
  other.rank = 1;
  CHECK(test::load(*synthetic(other), 2).data != test::load(*first, 2).data);
}
