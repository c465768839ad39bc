// `dtrain predict`: classifies images with a trained model.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "infer/trained_model.h"

namespace dtrain::infer {

struct PredictOptions {
  enum class Output { kTable, kJson, kNpy };

  PredictOptions();

  ModelChoice model;
  // Names as in data/sources/named_images.h. "-" means standard input, which has one such name on each line.
  std::vector<std::string> inputs;
  Output output = Output::kTable;
  std::string result;  // the node of the network's result; empty: the first one
  int64_t top = 5;     // classes for each image, the most probable ones first; kNpy has all classes
  std::string synset;  // a file with the names of the classes, one per line; empty: synset.txt next to the model or in
                       // the directory of its training data, if it exists
};

// Replaces "-" by the lines of `standard_input`, without empty ones. Code::kUsage for a second "-".
Result<std::vector<std::string>> with_lines_of(std::istream& standard_input, const std::vector<std::string>& inputs);

struct Predicted {
  int64_t images = 0, bad_records = 0;
};

// Classifies each image once, on the CPU, and writes the results in the order of the inputs. `inputs` no longer has a
// "-". An image that cannot be read is named in the log; it has no line in a table or in JSON, and in kNpy a row of
// NaN, so that row i is always image i. Code::kData: more unreadable images than --max-bad-records, or a file is
// broken; kNotFound: there is no such file; kUsage: the model is not known or has no such result, or the number of
// names does not match its classes.
Result<Predicted> predict(const PredictOptions& options, const Write& write, const Log& log);

}  // namespace dtrain::infer
