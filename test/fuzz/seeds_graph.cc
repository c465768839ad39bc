#include <cstdint>
#include <cstring>
#include <span>

#include "fuzz/targets.h"
#include "graph/models/models.h"
#include "graph/symbol/write.h"
#include "tensor/ndarray_file.h"

namespace dtrain::fuzz {

namespace {

// A file of MXNet 0.7: no version, "param", entries of two numbers, and no statistics.
constexpr std::string_view kOldSymbol = R"json({"nodes": [
  {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
  {"op": "null", "param": {}, "name": "c_weight", "inputs": [], "attr": {"wd_mult": "3"}},
  {"op": "null", "param": {}, "name": "c_bias", "inputs": []},
  {"op": "Convolution", "param": {"kernel": "(3,3)", "num_filter": "8", "pad": "(1,1)"}, "name": "c",
   "inputs": [[0, 0], [1, 0], [2, 0]], "attr": {"weight_lr_mult": "2", "ctx_group": "a"}},
  {"op": "null", "param": {}, "name": "b_gamma", "inputs": []},
  {"op": "null", "param": {}, "name": "b_beta", "inputs": []},
  {"op": "BatchNorm", "param": {"eps": "0.001"}, "name": "b", "inputs": [[3, 0], [4, 0], [5, 0]]},
  {"op": "Pooling", "param": {"kernel": "(3,3)", "pool_type": "max", "stride": "(2,2)"}, "name": "p",
   "inputs": [[6, 0]]},
  {"op": "_Plus", "param": {}, "name": "_plus0", "inputs": [[7, 0], [7, 0]]},
  {"op": "Flatten", "param": {}, "name": "f", "inputs": [[8, 0]]},
  {"op": "null", "param": {}, "name": "softmax_label", "inputs": []},
  {"op": "Softmax", "param": {}, "name": "softmax", "inputs": [[9, 0], [10, 0]]}],
  "arg_nodes": [0, 1, 2, 4, 5, 10], "heads": [[11, 0]]})json";

// Attributes and connections that dtrain's own networks do not have.
constexpr std::string_view kOtherSymbol = R"json({"nodes": [
  {"op": "null", "name": "data", "attrs": {"__shape__": "(0, 4, 9, 9)"}, "inputs": []},
  {"op": "null", "name": "w", "attrs": {"__init__": "[\"xavier\", {\"magnitude\": 2, \"rnd_type\": \"gaussian\"}]",
   "__lr_mult__": "0.5"}, "inputs": []},
  {"op": "Convolution", "name": "c1", "attrs": {"kernel": "[3, 3]", "dilate": "(2, 2)", "pad": "(2L, 2L)",
   "num_filter": "4", "num_group": "2", "no_bias": "1", "workspace": "256"}, "inputs": [[0, 0, 0], [1, 0, 0]]},
  {"op": "Convolution", "name": "c2", "attrs": {"kernel": "(3,3)", "pad": "(1,1)", "num_filter": "4", "num_group": "2",
   "no_bias": "True"}, "inputs": [[2, 0, 0], [1, 0, 0]]},
  {"op": "Pooling", "name": "p", "attrs": {"kernel": "(2, 2)", "pool_type": "sum", "pooling_convention": "full",
   "stride": "(2, 2)"}, "inputs": [[3, 0, 0]]},
  {"op": "_mul_scalar", "name": "m", "attrs": {"scalar": "0.5"}, "inputs": [[4, 0, 0]]},
  {"op": "Concat", "name": "k", "attrs": {"num_args": "2", "dim": "1"}, "inputs": [[4, 0, 0], [5, 0, 0]]},
  {"op": "Flatten", "name": "f", "inputs": [[6, 0, 0]]},
  {"op": "null", "name": "y", "inputs": []},
  {"op": "SoftmaxOutput", "name": "s", "attrs": {"grad_scale": "2", "normalization": "batch", "smooth_alpha": "0.1"},
   "inputs": [[7, 0, 0], [8, 0, 0]]}],
  "arg_nodes": [0, 1, 8], "node_row_ptr": [0, 1, 2], "heads": [[9, 0, 0], [9, 0, 0]],
  "attrs": {"mxnet_version": ["int", 10901], "is_np_shape": ["int", 0]}})json";

template <class... Numbers>
std::string words(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return bytes;
}

// A list of one array, given from its version on, with one name.
std::string list_of(const std::string& array) {
  return words(uint64_t{0x112}, uint64_t{0}, uint64_t{1}) + array + words(uint64_t{1}, uint64_t{3}) + "abc";
}

// The words of one device and type.
std::string on_cpu(int32_t type) {
  return words(int32_t{1}, int32_t{0}, type);
}

}  // namespace

std::vector<std::string> symbol_seeds() {
  std::vector<std::string> seeds = {std::string(kOldSymbol), std::string(kOtherSymbol)};
  for (const char* network : {"mlp", "lenet", "resnet-8", "inception-bn-28-small"}) {
    seeds.push_back(graph::symbol_text(graph::build_model({.network = network}).value()));
  }
  seeds.push_back(graph::symbol_text(graph::build_model({.network = "alexnet", .image = {3, 224, 224}}).value()));
  seeds.push_back(graph::symbol_text(graph::build_model({.network = "lenet", .add_stn = true}).value()));
  return seeds;
}

std::vector<std::string> params_seeds() {
  const std::vector<float> floats = {1, -2, 3, 0.5, 0, 6};
  const std::vector<uint8_t> header = {'{', '}'};
  const std::vector<StoredArrayView> arrays = {{.name = "arg:fc_weight", .shape = {2, 3}, .values = std::span(floats)},
                                               {.name = "aux:empty", .shape = {}, .values = std::span<const float>()},
                                               {.name = "header", .shape = {2}, .values = std::span(header)}};
  std::string legacy = words(uint32_t{2}, uint32_t{1}, uint32_t{2}) + on_cpu(0) + words(1.0F, 2.0F);
  std::string version1 = words(0xF993fac8U, int32_t{1}, int64_t{2}) + on_cpu(1) + words(1.0, 2.0);
  std::string half = words(0xF993fac9U, int32_t{0}, int32_t{1}, int64_t{2}) + on_cpu(2) + words(0x3c007c00U);
  std::string scalar = words(0xF993facaU, int32_t{0}, int32_t{0}) + on_cpu(12) + words(uint16_t{0x3f80});
  std::string rows = words(0xF993fac9U, int32_t{1}, int32_t{1}, int64_t{1}, int32_t{1}, int64_t{4}) + on_cpu(0) +
                     words(int32_t{6}, int32_t{1}, int64_t{1}, 1.0F, int64_t{2});
  return {to_ndarray_bytes(arrays), to_ndarray_bytes({}), list_of(legacy), list_of(version1), list_of(half),
          list_of(scalar),          list_of(rows)};
}

}  // namespace dtrain::fuzz
