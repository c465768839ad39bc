// The order of the keys of every network: stores, servers and checkpoints number the tensors by it, so a change would
// mix up the jobs and files of two versions of dtrain.
#include <span>

#include "base/crc32c.h"
#include "graph/models/models.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::graph;

namespace {

// A network and the CRC-32C of the lines of list_of().
struct KeyOrder {
  std::string network;
  int64_t layers, classes;
  Shape image;
  uint32_t crc;
  bool batch_norm = false;
};

const KeyOrder kKeyOrders[] = {
    {"mlp", 0, 10, {1, 28, 28}, 0x0d2ab1fe},
    {"lenet", 0, 10, {1, 28, 28}, 0x92d8ec5b},
    {"3conv", 0, 10, {3, 28, 28}, 0xb68fdfa1},
    {"3conv", 0, 100, {3, 28, 28}, 0x8d31d681},
    {"small", 0, 10, {3, 28, 28}, 0xb68fdfa1},
    {"inception-bn-28-small", 0, 10, {3, 28, 28}, 0xf6810434},
    {"inception-bn-28-small@mxnet-g", 0, 100, {3, 28, 28}, 0xd26ac0d7},
    {"inception-bn", 0, 10, {3, 28, 28}, 0xebab9aa4},
    {"inception-bn", 0, 1000, {3, 224, 224}, 0x671c41a0},
    {"inception-bn-28-small@v0.7", 0, 10, {3, 28, 28}, 0xf6810434},
    {"inception-bn@mxnet-g", 0, 1000, {3, 224, 224}, 0xe5533beb},
    {"inception-bn@v0.7", 0, 1000, {3, 224, 224}, 0xe5533beb},
    {"cross", 0, 100, {3, 28, 28}, 0xc52af0a5},
    {"cross-56", 0, 10, {3, 28, 28}, 0x1c8e0776},
    {"dfnmr", 56, 100, {3, 32, 32}, 0xc52af0a5},
    {"cross-20", 0, 100, {3, 28, 28}, 0x6efedbc4},
    {"dfnmr-32", 0, 100, {3, 28, 28}, 0x24388a0b},
    {"cross@mxnet-g", 110, 100, {3, 28, 28}, 0xb2f837c7},
    {"resnet-zscore", 0, 10, {3, 32, 32}, 0x1f2da3e4},
    {"resnet-28-small", 20, 10, {3, 28, 28}, 0xe58ec09f},
    {"resnet-28-small-20", 0, 10, {3, 28, 28}, 0xe58ec09f},
    {"resnet-28-small", 0, 10, {3, 28, 28}, 0x1726b18e},
    {"resnet-18", 0, 1000, {3, 224, 224}, 0x99664a15},
    {"resnet-34", 0, 1000, {3, 224, 224}, 0xcced8fdc},
    {"resnet", 0, 1000, {3, 224, 224}, 0x9978180b},
    {"resnet-v2", 50, 1000, {3, 224, 224}, 0x9978180b},
    {"resnet-101", 0, 1000, {3, 224, 224}, 0xad2b8fae},
    {"resnet-152", 0, 1000, {3, 224, 224}, 0xce95dcfa},
    {"resnet-200", 0, 1000, {3, 224, 224}, 0xf936f77e},
    {"resnet-269", 0, 1000, {3, 224, 224}, 0xb523b29b},
    {"resnet-v1-18", 0, 1000, {3, 224, 224}, 0x439f649a},
    {"resnet-v1-34", 0, 1000, {3, 224, 224}, 0xdc6f4e07},
    {"resnetv1-50", 0, 1000, {3, 224, 224}, 0x983473d2},
    {"resnet-v1", 152, 1000, {3, 224, 224}, 0xc93cb48b},
    {"resnet-18", 0, 10, {3, 32, 32}, 0x249ffd6d},
    {"resnet-50", 0, 10, {3, 32, 32}, 0xde8d8936},
    {"resnet-20", 0, 10, {3, 28, 28}, 0x9173aa2f},
    {"resnet-32", 0, 10, {3, 28, 28}, 0x0d12479f},
    {"resnet-56", 0, 10, {3, 28, 28}, 0x1b0d92fd},
    {"resnet", 0, 10, {3, 28, 28}, 0xb1662e04},
    {"resnet-164", 0, 10, {3, 28, 28}, 0xb8d21698},
    {"resnet-1001", 0, 10, {3, 28, 28}, 0x26a7545b},
    {"resnet-v1-20", 0, 10, {3, 28, 28}, 0x927d7c1d},
    {"resnet-v1-56", 0, 10, {3, 28, 28}, 0x66a6bed1},
    {"resnet-v1-110", 0, 10, {3, 28, 28}, 0x16835e23},
    {"resnet-v1-164", 0, 10, {3, 28, 28}, 0xc827ac7d},
};

// The same of networks whose files are not in the checksum below. The lists are MXNet 1.9.1's and 0.7's.
const KeyOrder kKeyOrdersOfMxnet[] = {
    {"googlenet", 0, 1000, {3, 224, 224}, 0xa0223e8e},
    {"googlenet@v0.7", 0, 1000, {3, 224, 224}, 0xa0223e8e},
    {"inception-bn-full", 0, 21841, {3, 224, 224}, 0x6c04dc0c},
    {"inception-bn-full@v0.7", 0, 21841, {3, 224, 224}, 0x6c04dc0c},
    {"inception-v3", 0, 1000, {3, 299, 299}, 0x43e162ce},
    {"inception-v3@mxnet-g", 0, 1000, {3, 299, 299}, 0x43e162ce},
    {"inception-v3@v0.7", 0, 1000, {3, 299, 299}, 0x43e162ce},
    {"resnet-v1-101", 0, 1000, {3, 224, 224}, 0xd81ca9a9},
    {"resnet-v1-200", 0, 1000, {3, 224, 224}, 0xecb4e1c5},
    {"resnet-v1-269", 0, 1000, {3, 224, 224}, 0x8af4a919},
    {"resnet-v1.5-50", 0, 1000, {3, 224, 224}, 0x983473d2},
    {"resnet-v1.5-269", 0, 1000, {3, 224, 224}, 0x8af4a919},
    {"resnext-18", 0, 1000, {3, 224, 224}, 0xac7218cf},
    {"resnext-34", 0, 1000, {3, 224, 224}, 0xc5579f15},
    {"resnext-50", 0, 1000, {3, 224, 224}, 0x01914d7f},
    {"resnext-101", 0, 1000, {3, 224, 224}, 0xd97a0521},
    {"resnext-152", 0, 1000, {3, 224, 224}, 0x5ddf7812},
    {"resnext-200", 0, 1000, {3, 224, 224}, 0x9b4e487d},
    {"resnext-269", 0, 1000, {3, 224, 224}, 0x126f42d3},
    {"resnext-20", 0, 10, {3, 32, 32}, 0x8fbf70a5},
    {"resnext-32", 0, 10, {3, 32, 32}, 0x492ef2b3},
    {"resnext-44", 0, 10, {3, 32, 32}, 0xf884038e},
    {"resnext-56", 0, 10, {3, 32, 32}, 0xb27f0868},
    {"resnext-110", 0, 10, {3, 32, 32}, 0x58b97b46},
    {"resnext-164", 0, 10, {3, 32, 32}, 0x7f5e0a71},
    {"vgg", 0, 1000, {3, 224, 224}, 0x71444f2b},
    {"vgg-13", 0, 1000, {3, 224, 224}, 0x0c84124c},
    {"vgg-16", 0, 1000, {3, 224, 224}, 0xf070fb22},
    {"vgg-19", 0, 1000, {3, 224, 224}, 0x4e4ed11c},
    {"vgg-11", 0, 1000, {3, 224, 224}, 0xbbb15f85, true},
    {"vgg-13", 0, 1000, {3, 224, 224}, 0x435a74e4, true},
    {"vgg-16", 0, 1000, {3, 224, 224}, 0xcee91bf6, true},
    {"vgg-19", 0, 1000, {3, 224, 224}, 0xc988dd4f, true},
    {"vgg@mxnet-g", 0, 1000, {3, 224, 224}, 0x71444f2b},
    {"vgg@v0.7", 0, 1000, {3, 224, 224}, 0x71444f2b},
    {"alexnet", 0, 1000, {3, 224, 224}, 0x5ec85ef4},
    {"alexnet", 0, 1000, {3, 227, 227}, 0xccfb6590},
    {"alexnet@mxnet-g", 0, 1000, {3, 224, 224}, 0x204e4b38},
    {"alexnet@v0.7", 0, 1000, {3, 224, 224}, 0x297cdb6b},
    {"lenet-stn", 0, 10, {1, 28, 28}, 0x36c72d83},
};

// One line for each learned tensor and each statistic, in order: its name, its shape and the network's rules for it.
std::string list_of(const Shapes& shapes) {
  std::string list;
  for (const auto* infos : {&shapes.parameters, &shapes.statistics}) {
    for (const ParameterInfo& info : *infos) {
      list += fmt::format("{} {} {} {}\n", info.name, to_string(info.shape), info.rule.learning_rate.value_or(-1),
                          info.rule.weight_decay.value_or(-1));
    }
  }
  return list;
}

void check_keys(const KeyOrder& row) {
  const ModelOptions options{.network = row.network,
                             .num_layers = row.layers,
                             .num_classes = row.classes,
                             .image = row.image,
                             .batch_norm = row.batch_norm};
  const std::string list = list_of(infer_shapes(build_model(options).value(), row.image).value());
  INFO(row.network << ", " << row.layers << " layers, " << to_string(row.image) << ":\n" << list.substr(0, 2000));
  CHECK(crc32c(std::as_bytes(std::span(list))) == row.crc);
}

}  // namespace

TEST_CASE("every network keeps its order of keys", "[graph][models]") {
  for (const KeyOrder& row : kKeyOrders) check_keys(row);
}

TEST_CASE("models: arguments, order and shapes are MXNet's", "[graph][models]") {
  for (const KeyOrder& row : kKeyOrdersOfMxnet) check_keys(row);
}
