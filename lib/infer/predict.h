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
  // The images to classify, in the forms that data/sources/named_images.h accepts. "-" means that the names are read
  // from standard input, one per line.
  std::vector<std::string> inputs;
  Output output = Output::kTable;
  std::string result;  // the node that computes the result to show; empty: the first one
  int64_t top = 5;     // number of classes to show for each image, the most probable first; kNpy shows all classes
  // A file with the names of the classes, one on each line; empty: synset.txt next to the model or in the directory of
  // its training data, if there is such a file.
  std::string synset;
};

// Replaces "-" by the lines of `standard_input` that are not empty. Code::kUsage if "-" occurs twice.
Result<std::vector<std::string>> with_lines_of(std::istream& standard_input, const std::vector<std::string>& inputs);

struct Predicted {
  int64_t images = 0, bad_records = 0;
};

// Classifies each image once, on the CPU, and writes the results in the order of the inputs. `inputs` must no longer
// contain "-" (see with_lines_of). If an image cannot be read, the log names it; it then has no line in a table or in
// JSON, and a row of NaN in kNpy, so that row i always belongs to image i. Code::kData: more than --max-bad-records
// images cannot be read, or a file is broken; kNotFound: there is no such file; kUsage: the model is not known or has
// no such result, or the number of class names is not its number of classes.
Result<Predicted> predict(const PredictOptions& options, const Write& write, const Log& log);

}  // namespace dtrain::infer
