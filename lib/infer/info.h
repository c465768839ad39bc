// `dtrain info`: shows what a network computes layer by layer, and what a file of arrays contains.
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
  // The model or network: the checkpoint, the network flags and --batch-size. Flags that are not set are taken from the
  // run, or, for a network without a run, from the data set that it was designed for.
  ModelChoice model;
};

struct LayerInfo {
  std::string name, op;
  std::vector<std::string> inputs;  // the layers whose outputs this layer reads
  Shape output;                     // shape of the layer's output, without the batch dimension
  int64_t parameters = 0;           // number of elements of the learned arrays that no earlier layer uses
  int64_t multiply_adds = 0;        // number of multiply-add operations for one image
  int64_t activation_bytes = 0;     // size of the layer's output for the whole batch, in float32
};

struct NetworkInfo {
  std::string network;
  Shape image;
  int64_t classes = 0, batch_size = 1;
  std::vector<LayerInfo> layers;  // the layers, in the order in which they are computed
  int64_t parameters = 0, statistics = 0, multiply_adds = 0, activation_bytes = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // the result as JSON, on one line
};

// Code::kNotFound: there is no such file; kUsage: there is no such network, or the shape of its images is unknown.
Result<NetworkInfo> network_info(const InfoOptions& options, const Log& log);

struct ArraysInfo {
  std::string file;
  std::string header;  // in a .states file: the progress of the run, as JSON; otherwise empty
  // In an .onnx or .safetensors file: information about the network, indexed by key (docs/formats.md, "Exported
  // models").
  std::map<std::string, std::string> metadata;
  std::vector<ArrayInfo> arrays;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};

// Reads a file of arrays. Code::kNotFound: there is no such file; kData: it is damaged, or of another kind.
Result<ArraysInfo> arrays_info(const std::string& path);

// The output of `dtrain info` for a network or a file of arrays.
Result<std::string> info(const InfoOptions& options, bool json, const Log& log);

}  // namespace dtrain::infer
