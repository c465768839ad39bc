#include "base/progress_bar.h"

#include "support/catch.h"

using namespace dtrain;

TEST_CASE("progress is shown with speed and the time that is left", "[base]") {
  const Work images{"train.rec", "images", 5120};
  const Live live = progress_of(images, 2300, 0, 2.5, "2 skipped");
  CHECK(live.text == "train.rec  45 %  2300 of 5120 images  920/s  ETA 3s  2 skipped");
  CHECK(live.done.value() == Approx(2300 / 5120.0));
  // What an earlier run has done does not count for the speed.
  CHECK(progress_of(images, 5120, 5000, 20).text == "train.rec  100 %  5120 of 5120 images  6.0/s");
  CHECK(progress_of(images, 0, 0, 1).text == "train.rec  0 %  0 of 5120 images");
  CHECK(progress_of({"cifar.tar.gz", "", 170'100'000}, 45'200'000, 0, 4).text ==
        "cifar.tar.gz  27 %  45.2 of 170.1 MB  11.3 MB/s  ETA 11s");
  const Live unknown = progress_of({"stream", "", 0}, 2'000'000, 0, 1);
  CHECK(unknown.text == "stream  2.0 MB  2.0 MB/s");
  CHECK_FALSE(unknown.done);
}

// It would flicker.
TEST_CASE("short work has no bar", "[base]") {
  int shown = 0;
  {
    ProgressBar bar({"short", "steps", 10}, [&](const Live&) { shown++; });
    for (int i = 0; i <= 10; i++) bar.show(i);
  }
  CHECK(shown == 0);
}
