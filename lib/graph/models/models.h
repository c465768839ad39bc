// Builds networks by name. Each family has a file next to this one. Layers and counts: docs/arithmetic.md, "Networks".
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace dtrain::graph {

struct ModelOptions {
  std::string network;     // "lenet", "resnet-50", "inception-bn"; a suffix "-<n>" sets the depth
  int64_t num_layers = 0;  // overrides the depth in the name; 0: the name's depth or the family's default
  int64_t num_classes = 10;
  Shape image = {3, 28, 28};  // shape of the images, [c, h, w]; some families choose their form depending on the height
  double bn_momentum = 0.9;
  double smooth_alpha = 0;
  // The data set: "cifar10", "imagenet", ...; some families choose their form depending on it; empty: unknown.
  std::string data_type = {};
  int64_t widen_factor = 1;  // only for cross; 1 to 64
  int64_t num_group = 32;    // only for resnext: number of groups in its grouped convolutions
  bool batch_norm = false;   // only for vgg: a batch normalization after each convolution
  bool add_stn = false;      // only for lenet: begins with a spatial transformer, as lenet-stn does
};

// `network`: NAME[-DEPTH][@VERSION], or an alias of such a name. VERSION is the version of MXNet whose definition is
// built; without it, the newest definition is built. Code::kUsage for a depth, a width or a version that the network
// does not have. Code::kUsage also for an unknown network; the message then suggests the closest name and lists all
// names.
Result<Graph> build_model(const ModelOptions& options);

// The names that build_model knows, sorted, without aliases and depths.
std::vector<std::string> model_names();

}  // namespace dtrain::graph
