// `dtrain export`: writes a trained model in a format that other programs read.
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
  // Whether to fold each batch norm into the convolution or fully connected layer before it.
  bool fold_batch_norm = false;
};

// The format that belongs to the suffix of a file name; nullopt if the suffix is unknown.
std::optional<ExportOptions::Format> format_of(std::string_view path);

struct Exported {
  std::string params;  // path of the file with the weights
  std::string network;
  size_t arrays = 0;  // number of learned tensors and statistics
  size_t folded = 0;  // number of folded batch norms
};

// Writes the model. The arrays have the same names as in .params, but without "arg:" and "aux:". Fails like find_model,
// read_network and onnx_bytes.
Result<Exported> export_model(const ExportOptions& options, const Write& write, const Log& log);

}  // namespace dtrain::infer
