// `dtrain score`: how well a trained model classifies labeled pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "job/flags/flags.h"

namespace dtrain::tools {

struct ScoreOptions {
  ScoreOptions();

  std::string model;             // a run directory, a prefix, or a .params file
  std::optional<int64_t> epoch;  // nullopt: the newest checkpoint
  // The network, the form of its images, how pixels become numbers, the data and the threads. Of network and augment,
  // what is not set (empty or 0) is that of the run that trained the model.
  job::Flags flags;
};

struct Score {
  std::string params;  // the file of the weights
  int64_t images = 0, bad_records = 0;
  double accuracy = 0, top_5 = 0, cross_entropy = 0;
  double images_per_s = 0;  // reading and decoding included

  [[nodiscard]] std::string json() const;  // one line
  [[nodiscard]] std::string text() const;  // the lines of MXNet's score.py, and the cross-entropy
};

// Classifies the validation data that --data-val or --data-dir names, each picture once, on the CPU. Logs how pixels
// become numbers. Code::kNotFound: there is no such model or no such data; kUsage: it is not known which network it is,
// or the data do not fit it; kData: a file is broken, the weights are of another network, or the labels are not its
// classes.
Result<Score> score(const ScoreOptions& options, const Log& log);

}  // namespace dtrain::tools
