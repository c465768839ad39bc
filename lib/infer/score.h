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
  // `model.flags` also names the data to score with. If it names none, the validation data of the run that trained the
  // model are used.
  ModelChoice model;
};

struct Score {
  std::string params;  // path of the file with the weights
  int64_t images = 0, bad_records = 0;
  // The values of accuracy, top_k_accuracy_5 and cross-entropy. If the network has several results: first the means
  // over all results, then the values of each result.
  std::vector<train::MetricValue> metrics;
  double images_per_s = 0;  // rate over the time that includes reading and decoding the images
  std::string data = {};    // names of the data files, for messages
  std::string result = {};  // the result to which `counts` applies, if the network has several
  // How often each class was predicted for each class, by the network's first result.
  telemetry::ClassCounts counts = {};
  std::vector<std::string> class_names = {};  // names of the classes, indexed by label; empty: unknown

  [[nodiscard]] std::string json() const;  // the result as JSON, on one line
  [[nodiscard]] std::string text() const;  // the lines of MXNet's score.py
  // For a terminal, with accuracies by class and the most frequent confusions; at most 80 columns wide.
  [[nodiscard]] std::string table() const;
};

// Classifies the validation data that --data-val or --data-dir names, or, if neither is given, those of the run that
// trained the model. Each image is classified once, on the CPU. Logs which data are used and how pixels are converted
// to floats. Code::kNotFound: there is no such model, or there are no such data; kUsage: the network is not known, or
// the data do not fit it; kData: a file is broken, the weights belong to another network, or the labels are not those
// of its classes.
Result<Score> score(const ScoreOptions& options, const Log& log);

}  // namespace dtrain::infer
