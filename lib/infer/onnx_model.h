// Writes a network with its weights and statistics as an ONNX model, for inference. Source:
// https://onnx.ai/onnx/operators, opset 17.
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "graph/graph.h"
#include "infer/stored_model.h"
#include "tensor/parameters.h"

namespace dtrain::infer {

struct OnnxNetwork {
  const graph::Graph& graph;
  const graph::Shapes& shapes;
  const ParameterView& values;  // weights and statistics, in the host's memory
  Shape image;                  // shape of the images: [c, h, w]
  std::string name;
  std::map<std::string, std::string> metadata = {};
};

// Returns the bytes of the .onnx file. The model's input "data" is a float32 array [batch, c, h, w] of normalized
// images, as the network reads it. Each result of the graph is an output of the model: an array [batch, classes] of
// probabilities with the name of its node. The initializers have the names of the network's variables. Dropout and
// labels are left out. Code::kUsage: the model is larger than 2 GiB, the limit of an ONNX file.
Result<std::string> onnx_bytes(const OnnxNetwork& network);

// Reads the arrays and the metadata of an ONNX file from any program. Code::kNotFound: there is no such file; kData: it
// is not an ONNX file, or it is damaged.
Result<StoredModel> read_onnx(const std::string& path);

}  // namespace dtrain::infer
