// `dtrain info`: what a network computes layer by layer, and what a file of arrays holds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "infer/stored_model.h"
#include "infer/trained_model.h"
#include "tensor/shape.h"

namespace dtrain::infer {

struct InfoOptions {
  InfoOptions();

  // A network's name, a symbol file, a run directory, a prefix, or a .params, .states, .onnx or .safetensors file.
  std::string subject;
  // Which checkpoint, and of the flags the network's and --batch-size. What is not set is that of the run, or, of a
  // network that nobody has trained here, that of the data set it was designed for.
  ModelChoice model;
};

struct LayerInfo {
  std::string name, op;
  std::vector<std::string> inputs;  // the layers that it reads
  Shape output;                     // without the batch
  int64_t parameters = 0;           // learned elements that no earlier layer reads
  int64_t multiply_adds = 0;        // of one image
  int64_t activation_bytes = 0;     // of its output, for the whole batch in float32
};

struct NetworkInfo {
  std::string network;
  Shape image;
  int64_t classes = 0, batch_size = 1;
  std::vector<LayerInfo> layers;  // in the order of computing
  int64_t parameters = 0, statistics = 0, multiply_adds = 0, activation_bytes = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // one line
};

// Code::kNotFound: there is no such file; kUsage: there is no such network, or the shape of its images is not known.
Result<NetworkInfo> network_info(const InfoOptions& options, const Log& log);

struct ArraysInfo {
  std::string file;
  std::string header;  // of a .states file: how far the run had come, as JSON; empty: the file is of another kind
  // Of an .onnx or .safetensors file: what it says about its network, by key (docs/formats.md, "Exported models").
  std::map<std::string, std::string> metadata;
  std::vector<ArrayInfo> arrays;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};

// Reads a file of arrays. Code::kNotFound; kData: it is damaged or of another kind.
Result<ArraysInfo> arrays_info(const std::string& path);

// The text for a subject of either kind.
Result<std::string> info(const InfoOptions& options, bool json, const Log& log);

}  // namespace dtrain::infer
