// One function for each family of networks; build_model chooses among them. The options have been checked before.
// `depth` is 0 for the family's default depth. Layers and parameter counts: docs/arithmetic.md, "Networks".
#pragma once

#include "graph/models/models.h"

namespace dtrain::graph {

using BuildModel = Result<Graph>(const ModelOptions& options, int64_t depth);

BuildModel mlp;                               // from MXNet 1.x
BuildModel lenet;                             // from MXNet 1.x
BuildModel lenet_stn;                         // from MXNet 1.x
BuildModel three_convolutions;                // from MXNet-G
BuildModel inception_bn_28_small_of_mxnet_g;  // from MXNet-G, with generated names
BuildModel inception_bn_28_small_of_v07;      // from MXNet 0.7, with generated names
BuildModel inception_bn;                      // from MXNet 1.x; the small form for images of at most 28 rows
BuildModel inception_bn_of_mxnet_g;
BuildModel inception_bn_of_v07;
BuildModel inception_bn_full_of_mxnet_g;  // from MXNet-G; with more filters, for 21841 classes
BuildModel inception_bn_full_of_v07;
BuildModel inception_v3;  // from MXNet 1.x
BuildModel inception_v3_of_mxnet_g;
BuildModel inception_v3_of_v07;
BuildModel alexnet;  // from MXNet 1.x
BuildModel alexnet_of_mxnet_g;
BuildModel alexnet_of_v07;
BuildModel vgg;  // from MXNet 1.x; 11 layers by default
BuildModel vgg_of_mxnet_g;
BuildModel vgg_of_v07;
BuildModel googlenet;  // from MXNet 1.x
BuildModel googlenet_of_v07;
BuildModel resnet_28_small;       // from MXNet-G; depth 6n+2, by default 56
BuildModel resnet_zscore;         // from MXNet 0.7
BuildModel resnet_v2;             // from MXNet 1.x; default depth 110 for images of at most 28 rows, otherwise 50
BuildModel resnet_v2_of_mxnet_g;  // from MXNet-G; default depth 50; its form depends on the data set
BuildModel resnet_v1;             // from MXNet 1.x; the same depths as resnet_v2
BuildModel resnet_v1_5;           // like resnet_v1, but another convolution has the stride
BuildModel resnext;               // from MXNet 1.x; three stages for images of at most 32 rows
BuildModel cross;                 // from MXNet-G; depth by default 56

}  // namespace dtrain::graph
