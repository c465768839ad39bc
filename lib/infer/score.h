// `dtrain score`: measures how well a trained model classifies labeled images.
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
  ModelChoice model;  // its flags also name the data; if they name none, the data of the run that trained the model are
                      // used
};

struct Score {
  std::string params;  // path of the file with the weights
  int64_t images = 0, bad_records = 0;
  // accuracy, top_k_accuracy_5 and cross-entropy; if the network has several results, their means first, then those of
  // each result
  std::vector<train::MetricValue> metrics;
  double images_per_s = 0;                    // reading and decoding included
  std::string data = {};                      // names of the files, for people
  std::string result = {};                    // the result that `counts` is about, if the network has several
  telemetry::ClassCounts counts = {};         // counts for the network's first result
  std::vector<std::string> class_names = {};  // indexed by label; empty: not known

  [[nodiscard]] std::string json() const;  // one line
  [[nodiscard]] std::string text() const;  // the lines of MXNet's score.py
  // For a terminal, with accuracies by class and confusions; 80 columns at most.
  [[nodiscard]] std::string table() const;
};

// Classifies the validation data that --data-val or --data-dir names, or otherwise those of the run that trained the
// model. Each image is classified once, on the CPU. Logs which data are used, and how pixels become floats.
// Code::kNotFound: there is no such model or no such data; kUsage: the network is not known, or the data do not fit it;
// kData: a file is broken, the weights belong to another network, or the labels are not its classes.
Result<Score> score(const ScoreOptions& options, const Log& log);

}  // namespace dtrain::infer
