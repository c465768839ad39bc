// `dtrain score`: how well a trained model classifies labeled images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "infer/trained_model.h"
#include "telemetry/class_results.h"
#include "train/metrics.h"

namespace dtrain::infer {

struct ScoreOptions {
  ModelChoice model;  // its flags also name the data; if they name none, those of the run that trained the model
};

struct Score {
  std::string params;  // the file of the weights
  int64_t images = 0, bad_records = 0;
  // accuracy, top_k_accuracy_5 and cross-entropy; if the network has several results, means over them, and then those
  // of each one
  std::vector<train::MetricValue> metrics;
  double images_per_s = 0;                    // reading and decoding included
  std::string data = {};                      // the files, for people
  std::string result = {};                    // that `counts` is about, if the network has several
  telemetry::ClassCounts counts = {};         // of the network's first result
  std::vector<std::string> class_names = {};  // by label; empty: not known

  [[nodiscard]] std::string json() const;  // one line
  [[nodiscard]] std::string text() const;  // the lines of MXNet's score.py
  // For a terminal, with accuracies by class and confusions; 80 columns at most.
  [[nodiscard]] std::string table() const;
};

// Classifies the validation data that --data-val or --data-dir names, or else those of the run that trained the model,
// each image once, on the CPU. Logs whose data they are, and how pixels become floats. Code::kNotFound: there is no
// such model or no such data; kUsage: it is not known which network it is, or the data do not fit it; kData: a file is
// broken, the weights are of another network, or the labels are not its classes.
Result<Score> score(const ScoreOptions& options, const Log& log);

}  // namespace dtrain::infer
