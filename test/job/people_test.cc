// What a person at a terminal sees of a job's log.
#include "job/process/people.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::job;

TEST_CASE("an epoch is told in one line", "[job]") {
  EpochSummary epoch{.epoch = 3, .epochs = 30, .loss = 0.1449, .accuracy = 0.9531, .rate = 0.05, .seconds = 12.94};
  CHECK(epoch_line(epoch) == "epoch 3/30  loss 0.145  accuracy 95.3 %  rate 0.05  12.9 s");
  epoch.validation = {.accuracy = 0.9612, .loss = 0.13, .is_best = true};
  CHECK(epoch_line(epoch) ==
        "epoch 3/30  loss 0.145  accuracy 95.3 %  validation 96.1 % (best)  validation loss 0.130  rate 0.05  12.9 s");
  epoch.validation->is_best = false;
  epoch.rate = 1.25e-5;
  epoch.seconds = 7260;
  CHECK(epoch_line(epoch) ==
        "epoch 3/30  loss 0.145  accuracy 95.3 %  validation 96.1 %  validation loss 0.130  rate 0.0000125  2h01m");
}

TEST_CASE("MXNet's lines are for files, and all others are for people too", "[job]") {
  for (const char* text :
       {"Epoch[0] Batch [0-20]\tSpeed: 1 samples/sec", "Epoch[0] Train-accuracy=0.5", "Update[3]: Change learning rate",
        "Saved checkpoint to \"a\"", "start with arguments lr=1", "Resizing training data to 3 batches per machine"}) {
    INFO(text);
    CHECK_FALSE(fit_for_people(text));
  }
  CHECK(fit_for_people("training: 60,000 images in 10 classes") == Fit::kWords);
  CHECK(fit_for_people("Finished after 2 epochs and 14.8 s; see runs/a") == Fit::kWords);
  CHECK(fit_for_people("epoch 1/2  step 3/4") == Fit::kWords);
  CHECK(fit_for_people(epoch_line({.epoch = 1, .epochs = 2})) == Fit::kParts);
  CHECK(fit_for_people("") == Fit::kWords);
}
