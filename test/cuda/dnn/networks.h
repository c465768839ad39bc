// The networks whose layers the tests plan, and the device that the plans are for. No GPU is needed or used.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "cuda/dnn/convolution.h"
#include "cuda/dnn/device.h"
#include "graph/models/models.h"
#include "support/must.h"

namespace dtrain::cuda {

// The device in the file NAME.json. h200.json was written by a device. h100.json (SXM5, 80 GB) and a100.json (SXM4,
// 80 GB) have the fields of h200.json with the values that NVIDIA has published for these devices.
inline Device described_device(const std::string& name) {
  return test::must(
      Device::described(test::must(read_file(fmt::format("{}/{}.json", DTRAIN_CUDA_DNN_TEST_DIR, name)))));
}

inline Device h200() {
  return described_device("h200");
}

struct Network {
  std::string name;
  int64_t classes;
  Shape image;
  bool small;  // planned in all types, not only float16
};

inline const std::vector<Network>& networks() {
  static const std::vector<Network> all = {
      {"resnet-50", 1000, {3, 224, 224}, false},
      {"resnet-v1-50", 1000, {3, 224, 224}, false},
      {"inception-bn", 1000, {3, 224, 224}, false},
      {"inception-bn@v0.7", 1000, {3, 224, 224}, false},
      {"inception-bn-28-small", 10, {3, 28, 28}, true},
      {"resnet-28-small-20", 10, {3, 28, 28}, true},
      {"resnet-20", 10, {3, 28, 28}, true},
      {"resnet-v1-20", 10, {3, 28, 28}, true},
      {"resnet-164", 10, {3, 28, 28}, true},
      {"cross-20", 10, {3, 28, 28}, true},
      {"resnet-zscore", 10, {3, 32, 32}, true},
      {"3conv", 10, {3, 28, 28}, true},
      {"lenet", 10, {1, 28, 28}, true},
      {"mlp", 10, {1, 28, 28}, true},
  };
  return all;
}

inline std::vector<ConvolutionCase> layers_of(const Network& network, int64_t batch) {
  const graph::Graph graph =
      test::must(graph::build_model({.network = network.name, .num_classes = network.classes, .image = network.image}));
  return convolutions_of(graph, test::must(graph::infer_shapes(graph, network.image)), batch);
}

}  // namespace dtrain::cuda
