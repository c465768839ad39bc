// `dtrain export`: a trained model in the formats of other programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "infer/trained_model.h"

namespace dtrain::infer {

struct ExportOptions {
  enum class Format { kOnnx, kSafetensors };

  ExportOptions();

  ModelChoice model;
  Format format = Format::kOnnx;
  bool fold_batch_norm = false;  // into the convolutions and fully connected layers before them
};

// The format that the ending of a file's name says; nullopt for another ending.
std::optional<ExportOptions::Format> format_of(std::string_view path);

struct Exported {
  std::string params;  // the file of the weights
  std::string network;
  size_t arrays = 0;  // learned tensors and statistics
  size_t folded = 0;  // batch norms
};

// Writes the model. The names of arrays are those of .params without "arg:" and "aux:". Fails as find_model and
// read_network, and as onnx_bytes.
Result<Exported> export_model(const ExportOptions& options, const Write& write, const Log& log);

}  // namespace dtrain::infer
