// Writes a network with its values as an ONNX model, for inference. Source: https://onnx.ai/onnx/operators, opset 17.
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
  Shape image;                  // [c, h, w]
  std::string name;
  std::map<std::string, std::string> metadata = {};
};

// The bytes of the .onnx file. Its input "data" is [batch, c, h, w], float32, as the network reads it, so pixels must
// be normalized before. Each result of the graph is an output [batch, classes] of probabilities, named after its node.
// The names of initializers are those of the network's variables. Dropout and labels are left out. Code::kUsage: the
// model needs more than 2 GiB, which an ONNX file cannot hold.
Result<std::string> onnx_bytes(const OnnxNetwork& network);

// Reads the arrays and the metadata of a file, written by any program. Code::kNotFound; kData: it is not an ONNX file,
// or it is damaged.
Result<StoredModel> read_onnx(const std::string& path);

}  // namespace dtrain::infer
