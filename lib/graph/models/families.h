// One function a family of networks: what build_model chooses from. Options are checked before; `depth` is 0 for the
// family's default. Layers, names and counts: the section of models.md named at each.
#pragma once

#include "graph/models/models.h"

namespace dtrain::graph {

Result<Graph> mlp(const ModelOptions& options, int64_t depth);                    // 1.4.1, of MXNet 1.x
Result<Graph> lenet(const ModelOptions& options, int64_t depth);                  // 1.4.2
Result<Graph> three_convolutions(const ModelOptions& options, int64_t depth);     // 1.4.3, of MXNet-G
Result<Graph> inception_bn_28_small(const ModelOptions& options, int64_t depth);  // 1.4.7, of MXNet-G: automatic names
Result<Graph> inception_bn(const ModelOptions& options, int64_t depth);  // 1.4.7 up to height 28, else 1.4.8; of 1.x
Result<Graph> resnet_28_small(const ModelOptions& options,
                              int64_t depth);                         // 1.4.11; depth 6n+2, by default 56 (MXNet-G)
Result<Graph> resnet_v2(const ModelOptions& options, int64_t depth);  // 1.4.13; by default 110 up to height 28, else 50
Result<Graph> resnet_v1(const ModelOptions& options, int64_t depth);  // 1.4.14; the same

}  // namespace dtrain::graph
