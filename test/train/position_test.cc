#include "train/position.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::train;

TEST_CASE("a position is read back from its text, and other texts are refused", "[train]") {
  const Position position{
      .epoch = 3, .step = 120, .own_steps = 590, .updates = 591, .samples = 18446744073709551615ULL};
  const std::string text = to_text(position);
  CHECK(text == "epoch 3 step 120 own 590 updates 591 samples 18446744073709551615");
  CHECK(parse_position(text).value() == position);
  for (size_t size = 0; size < text.size() - 19; size++) {
    INFO(text.substr(0, size));
    CHECK_FALSE(parse_position(text.substr(0, size)));
  }
  for (const char* other :
       {"epoch -3 step 1 own 1 updates 1 samples 1", "epoch 3 step 1 own 1 updates 1 samples 1x",
        "epoch 3  step 1 own 1 updates 1 samples 1", "epoch 3 step 1 own 1 updates 1 samples 99999999999999999999"}) {
    INFO(other);
    CHECK_FALSE(parse_position(other));
  }
  CHECK(Position{1, 7}.is_before({2, 0}));
  CHECK_FALSE(Position{2, 0}.is_before({2, 0}));
}
