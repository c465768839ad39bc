// Lines of training logs, as dtrain and all versions of MXNet since 0.7 write them (docs/formats.md, "Log lines"). All
// code that reads logs, such as parse-log, plan --from-log and report, uses these functions. The content of lines is
// not trusted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log_prefix.h"

namespace dtrain::observe {

// What MXNet's tools/parse_log.py finds with the expression `.*Epoch\[(\d+)\] NAME.*=([.\d]+)`, where NAME begins with
// Train, Valid or Time and ends before the first '=' or blank. Unlike there, the number may have an exponent.
struct EpochValue {
  int64_t epoch = 0;
  std::string_view name = {};  // name of the value: "Train-accuracy"
  double value = 0;
};
std::optional<EpochValue> epoch_value(std::string_view line);

// The parts of "Epoch[0] Batch [0-20]\tSpeed: 1234.57 samples/sec\taccuracy=0.101562" as texts.
struct SpeedText {
  std::string_view batches;  // the part before the speed: "Epoch[0] Batch [0-20]\t"
  std::string_view speed;    // the number: "1234.57"
  std::string_view values;   // the part after the speed: "\taccuracy=0.101562"
};
std::optional<SpeedText> find_speed(std::string_view text);

// One line about the progress of a training, or about one of its epochs.
struct TrainingLine {
  enum class Kind : uint8_t { kWindow, kTrain, kValidation, kTime };
  Kind kind = Kind::kWindow;
  int64_t epoch = 0;                                        // number of the epoch, counted from 0
  std::optional<int64_t> batch;                             // the last batch of the window; nullopt: the whole epoch
  std::optional<double> speed;                              // speed in samples/s
  std::vector<std::pair<std::string_view, double>> values;  // {"accuracy", 0.25}; for kTime, one value without a name
};
// Nullopt if `text` (the text of a SplitLine) is a line of another kind. A value may be NaN or infinite.
std::optional<TrainingLine> read_training_line(std::string_view text);

// The contents of a line "Update[391]: Change learning rate to 9.40000e-02".
struct RateLine {
  int64_t update = 0;
  double rate = 0;
};
std::optional<RateLine> read_rate_line(std::string_view text);

// Converts "start with arguments Namespace(batch_size=128, network='lenet')" to {"batch-size", "128"}, {"network",
// "lenet"}. Other scripts of MXNet write "Namespace(...)" alone. Empty if `text` is a line of another kind. Reads at
// most 1000 arguments.
std::map<std::string, std::string> read_arguments(std::string_view text);

// The number in "Resizing training data to 390 batches per machine".
std::optional<int64_t> read_batches_per_machine(std::string_view text);

// Whether a line reports a problem, judged by the words "warning: " and "error". Lines of dtrain begin with these
// words; lines of other programs contain them anywhere.
enum class Severity : uint8_t { kNone, kWarning, kError };
Severity severity_of(std::string_view text);

}  // namespace dtrain::observe
