// The networks by name. One file a family beside this one; names and counts: models.md section 1.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace dtrain::graph {

struct ModelOptions {
  std::string network;     // "lenet", "resnet-50", "inception-bn"; "-<n>" sets the depth
  int64_t num_layers = 0;  // 0: as the name or the family says; otherwise instead of the name's depth
  int64_t num_classes = 10;
  Shape image = {3, 28, 28};  // [c, h, w]: some families choose their form by the height
  double bn_momentum = 0.9;
  double smooth_alpha = 0;
  std::string data_type = {};  // "cifar10", "imagenet", ...: some choose their form by it; empty: not known
  int64_t widen_factor = 1;    // of cross alone; 1 to 64
};

// network: NAME[-DEPTH][@ERA], with the aliases of flags.md section 7. A bare name is the newest era's function
// (models.md 11). Code::kUsage for a network that does not exist (with the nearest name and the list), an era, a depth
// or a width that it does not have.
Result<Graph> build_model(const ModelOptions& options);

// The names that build_model knows, sorted, without aliases and depths.
std::vector<std::string> model_names();

}  // namespace dtrain::graph
