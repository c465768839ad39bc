// `dtrain export`: writes a trained model in the formats of other programs.
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
  bool fold_batch_norm = false;  // fold batch norms into the convolutions and fully connected layers before them
};

// The format for a file name's suffix; nullopt for an unknown one.
std::optional<ExportOptions::Format> format_of(std::string_view path);

struct Exported {
  std::string params;  // path of the file with the weights
  std::string network;
  size_t arrays = 0;  // number of learned tensors and statistics
  size_t folded = 0;  // number of folded batch norms
};

// Writes the model. The names of arrays are those in .params without "arg:" and "aux:". Fails like find_model,
// read_network and onnx_bytes.
Result<Exported> export_model(const ExportOptions& options, const Write& write, const Log& log);

}  // namespace dtrain::infer
