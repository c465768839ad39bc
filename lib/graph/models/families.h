// One function a family of networks: what build_model chooses from. Options are checked before; `depth` is 0 for the
// family's default. Layers, names and counts: the section of models.md named at each.
#pragma once

#include "graph/models/models.h"

namespace dtrain::graph {

using BuildModel = Result<Graph>(const ModelOptions& options, int64_t depth);

BuildModel mlp;                               // 1.4.1, of MXNet 1.x
BuildModel lenet;                             // 1.4.2
BuildModel three_convolutions;                // 1.4.3, of MXNet-G
BuildModel inception_bn_28_small_of_mxnet_g;  // 1.4.7: automatic names
BuildModel inception_bn_28_small_of_v07;
BuildModel inception_bn;  // 1.4.7 up to height 28, else 1.4.8; of 1.x
BuildModel inception_bn_of_mxnet_g;
BuildModel inception_bn_of_v07;
BuildModel resnet_28_small;       // 1.4.11, of MXNet-G; depth 6n+2, by default 56
BuildModel resnet_zscore;         // 1.4.12, of MXNet 0.7
BuildModel resnet_v2;             // 1.4.13; by default 110 up to height 28, else 50; of 1.x
BuildModel resnet_v2_of_mxnet_g;  // by default 50; its form is chosen by the data set
BuildModel resnet_v1;             // 1.4.14, of 1.x; as resnet_v2
BuildModel cross;                 // 1.4.17, of MXNet-G; by default 56

}  // namespace dtrain::graph
