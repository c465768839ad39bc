// What a person at a terminal sees of a job's log: one line for each epoch, and all messages except those in MXNet's
// format, which go only to the log files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/live.h"

namespace dtrain::job {

// Whether stderr is for people: it is a terminal, and --log-format does not ask for MXNet's lines.
bool is_screen_for_people(bool log_format_is_given);

// True if the text begins with an epoch and then `next_part`: "epoch 3/30  loss ...", "epoch 3/30  step ...".
bool begins_with_epoch(std::string_view text, std::string_view next_part);

// How to show a log line that is neither a warning nor an error. Nullopt if it is for the log files only.
std::optional<Fit> fit_for_people(std::string_view text);

// An epoch that has ended, as one worker sees it.
struct EpochSummary {
  struct Validation {
    double accuracy = 0, loss = 0;
    bool is_best = false;  // no earlier accuracy of the run is higher
  };

  int64_t epoch = 0, epochs = 0;  // number of the epoch, counted from 1, and number of all epochs
  double loss = 0, accuracy = 0;  // means over the epoch's training data; losses are mean cross-entropies
  std::optional<Validation> validation = {};
  double rate = 0;     // the learning rate of the epoch's last step
  double seconds = 0;  // from the epoch's first step to this line
};
// For example: "epoch 3/30  loss 0.145  accuracy 95.3 %  validation 96.1 % (best)  validation loss 0.131  rate 0.05
// 12.9 s"
std::string epoch_line(const EpochSummary& epoch);

// For example "0.145", or "nan".
std::string loss_text(double loss);
std::string accuracy_text(double share);  // returns a text such as "95.3 %"

}  // namespace dtrain::job
