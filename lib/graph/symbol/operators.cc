#include "graph/symbol/operators.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/overloaded.h"
#include "base/printable.h"
#include "base/words.h"
#include "graph/symbol/attribute_reader.h"

namespace dtrain::graph {

namespace {

constexpr Range kWindow = {1, 65536}, kPad = {0, 65536}, kWidth = {1, 1 << 24};
using Pair = std::pair<int64_t, int64_t>;
constexpr Pair kOnes = {1, 1}, kZeros = {0, 0};

Op read_convolution(AttributeReader& in, size_t) {
  const auto [kernel_h, kernel_w] = in.pair("kernel", kWindow);
  const auto [stride_h, stride_w] = in.pair("stride", kWindow, kOnes);
  const auto [pad_h, pad_w] = in.pair("pad", kPad, kZeros);
  const auto [dilation_h, dilation_w] = in.pair("dilate", kWindow, kOnes);
  const int64_t filters = in.number("num_filter", kWidth), groups = in.number("num_group", kWidth, 1);
  in.ignore({"workspace", "cudnn_tune", "cudnn_off"});
  in.only("layout", {"None", "NCHW"});
  return Convolution{.filters = filters,
                     .kernel_h = kernel_h,
                     .kernel_w = kernel_w,
                     .stride_h = stride_h,
                     .stride_w = stride_w,
                     .pad_h = pad_h,
                     .pad_w = pad_w,
                     .groups = groups,
                     .bias = !in.truth("no_bias", false),
                     .dilation_h = dilation_h,
                     .dilation_w = dilation_w};
}

Op read_fully_connected(AttributeReader& in, size_t) {
  in.only_truth("flatten", true);
  const int64_t outputs = in.number("num_hidden", kWidth);
  return FullyConnected{.outputs = outputs, .bias = !in.truth("no_bias", false)};
}

Op read_batch_norm(AttributeReader& in, size_t) {
  in.only_truth("output_mean_var", false);
  in.only_number("axis", 1);
  in.ignore({"cudnn_off"});
  const double epsilon = in.real("eps", 1e-3), momentum = in.real("momentum", 0.9);
  if (epsilon <= 0) in.problem("'eps' must be larger than 0");
  return BatchNorm{.epsilon = epsilon,
                   .momentum = momentum,
                   .fix_gamma = in.truth("fix_gamma", true),
                   .global_statistics = in.truth("use_global_stats", false)};
}

Op read_activation(AttributeReader& in, size_t) {
  const size_t kind = in.choice("act_type", {"relu", "tanh", "sigmoid", "softrelu", "softsign"});
  return Activation{static_cast<Activation::Kind>(kind)};
}

template <Activation::Kind kind>
Op read_one_activation(AttributeReader&, size_t) {
  return Activation{kind};
}

Pooling read_any_pooling(AttributeReader& in) {
  const bool global = in.truth("global_pool", false);
  const auto [kernel_h, kernel_w] = in.pair("kernel", kWindow, global ? std::optional(kOnes) : std::nullopt);
  const auto [stride_h, stride_w] = in.pair("stride", kWindow, kOnes);
  const auto [pad_h, pad_w] = in.pair("pad", kPad, kZeros);
  const size_t kind = in.choice("pool_type", {"max", "avg", "sum"}, 0);
  const size_t rounding = in.choice("pooling_convention", {"valid", "full"}, 0);
  return {.kind = static_cast<Pooling::Kind>(kind),
          .kernel_h = kernel_h,
          .kernel_w = kernel_w,
          .stride_h = stride_h,
          .stride_w = stride_w,
          .pad_h = pad_h,
          .pad_w = pad_w,
          .global = global,
          .rounding = rounding == 0 ? Pooling::Rounding::kValid : Pooling::Rounding::kFull};
}

Op read_pooling(AttributeReader& in, size_t) {
  in.ignore({"cudnn_off"});
  in.only("p_value", {"None"});
  in.only("layout", {"None", "NCHW"});
  Pooling op = read_any_pooling(in);
  const size_t padding = in.choice("count_include_pad", {"None", "True", "true", "1", "False", "false", "0"}, 0);
  if (padding >= 4) op.divisor = Pooling::Divisor::kReal;
  return op;
}

// MXNet 1.9 has the pooling of version 0.7 as a separate operator. In its maxima, padded cells count as zeros, and its
// averages are divided by the kernel's area.
Op read_old_pooling(AttributeReader& in, size_t) {
  Pooling op = read_any_pooling(in);
  op.divisor = Pooling::Divisor::kKernel;
  if (op.kind == Pooling::Kind::kMax && !op.global && (op.pad_h != 0 || op.pad_w != 0)) {
    in.problem("a maximum over padded cells is not supported; use Pooling");
  }
  return op;
}

void expect_inputs(AttributeReader& in, size_t inputs) {
  const int64_t stated = in.number("num_args", {1, 1 << 16});
  if (std::cmp_not_equal(stated, inputs))
    in.problem(fmt::format("'num_args' is {}, but the node has {} inputs", stated, inputs));
}

Op read_concat(AttributeReader& in, size_t inputs) {
  expect_inputs(in, inputs);
  in.only_number("dim", 1);
  return Concat{};
}

Op read_sum(AttributeReader& in, size_t inputs) {
  expect_inputs(in, inputs);
  return Add{};
}

Op read_add(AttributeReader& in, size_t inputs) {
  if (inputs != 2) in.problem(fmt::format("the operator adds two inputs, but the node has {}", inputs));
  return Add{};
}

Op read_flatten(AttributeReader&, size_t) {
  return Flatten{};
}

Op read_copy(AttributeReader&, size_t) {
  return Identity{};
}

Op read_scale(AttributeReader& in, size_t) {
  in.ignore({"is_int"});
  return Scale{in.real("scalar")};
}

Op read_local_response_norm(AttributeReader& in, size_t) {
  const int64_t size = in.number("nsize", kWindow);
  if (size % 2 == 0) in.problem("'nsize' must be odd");
  const double alpha = in.real("alpha", 1e-4), beta = in.real("beta", 0.75), k = in.real("knorm", 2);
  if (!(k > 0 && alpha >= 0 && beta >= 0)) {
    in.problem("'knorm' must be larger than 0, and 'alpha' and 'beta' not less than 0");
  }
  return LocalResponseNorm{.size = size, .alpha = alpha, .beta = beta, .k = k};
}

Op read_dropout(AttributeReader& in, size_t) {
  in.only("mode", {"training"});
  in.only("axes", {"()", "[]", "None"});
  in.ignore({"cudnn_off"});
  const double rate = in.real("p", 0.5);
  if (!(rate >= 0 && rate < 1)) in.problem("'p' must be at least 0 and below 1");
  return Dropout{rate};
}

Op read_spatial_transformer(AttributeReader& in, size_t) {
  in.only("transform_type", {"affine"});
  in.only("sampler_type", {"bilinear"});
  in.ignore({"cudnn_off"});
  const auto [height, width] = in.pair("target_shape", {2, kWindow.last});
  return SpatialTransformer{height, width};
}

// Reads an operator that converts values to another type. It has no effect here, because all tensors have the job's
// type, which --dtype chooses.
Op read_cast(AttributeReader& in, size_t) {
  in.choice("dtype", {"float32", "float16", "float64", "bfloat16"});
  return Identity{};
}

Op read_softmax_output(AttributeReader& in, size_t) {
  const double scale = in.real("grad_scale", 1);
  // If no labels are ignored, all labels are valid, so "valid" means the same as "batch".
  const bool per_image = in.choice("normalization", {"null", "batch", "valid"}, 0) != 0;
  for (const char* key : {"multi_output", "use_ignore", "preserve_shape", "out_grad"}) in.only_truth(key, false);
  in.ignore({"ignore_label"});
  const double alpha = in.real("smooth_alpha", 0);
  if (alpha < 0 || alpha > 1) in.problem("'smooth_alpha' must be from 0 to 1");
  return SoftmaxOutput{.smooth_alpha = alpha, .gradient_scale = scale, .per_image = per_image};
}

// A name under which an operator is read. Names with `same_as` are synonyms, which MXNet does not write.
struct OperatorName {
  std::string_view name;
  Op (*read)(AttributeReader&, size_t inputs);
  std::string_view same_as = {};
};

using ActivationKind = Activation::Kind;
constexpr std::array kOperators = std::to_array<OperatorName>({
    {"Activation", read_activation},
    {"BatchNorm", read_batch_norm},
    {"BatchNorm_v1", read_batch_norm},
    {"Cast", read_cast},
    {"Concat", read_concat},
    {"Convolution", read_convolution},
    {"Convolution_v1", read_convolution},
    {"Dropout", read_dropout},
    {"Flatten", read_flatten},
    {"FullyConnected", read_fully_connected},
    {"LRN", read_local_response_norm},
    {"Pooling", read_pooling},
    {"Pooling_v1", read_old_pooling},
    {"SoftmaxOutput", read_softmax_output},
    {"SpatialTransformer", read_spatial_transformer},
    {"_copy", read_copy},
    {"_grad_add", read_add},
    {"_mul_scalar", read_scale},
    {"add_n", read_sum},
    {"broadcast_add", read_add},
    {"elemwise_add", read_add},
    {"relu", read_one_activation<ActivationKind::kRelu>},
    {"sigmoid", read_one_activation<ActivationKind::kSigmoid>},
    {"tanh", read_one_activation<ActivationKind::kTanh>},
    {"CuDNNBatchNorm", read_batch_norm, "BatchNorm"},
    {"ElementWiseSum", read_sum, "add_n"},
    {"Softmax", read_softmax_output, "SoftmaxOutput"},
    {"_Add", read_add, "elemwise_add"},
    {"_MulScalar", read_scale, "_mul_scalar"},
    {"_Plus", read_add, "elemwise_add"},
    {"_add", read_add, "elemwise_add"},
    {"_mulscalar", read_scale, "_mul_scalar"},
    {"_plus", read_add, "elemwise_add"},
    {"_sum", read_sum, "add_n"},
    {"broadcast_plus", read_add, "broadcast_add"},
    {"cast", read_cast, "Cast"},
    {"concat", read_concat, "Concat"},
    {"flatten", read_flatten, "Flatten"},
    {"identity", read_copy, "_copy"},
});

const OperatorName* find_operator(std::string_view name) {
  const auto* const found = std::ranges::find(kOperators, name, &OperatorName::name);
  return found == kOperators.end() ? nullptr : found;
}

// Adds attributes: all of them, or those that MXNet requires or whose values differ from its defaults.
struct AttributeWriter {
  Attributes& out;
  bool all = false;

  template <class Value>
  void put(const char* key, const Value& value) {
    out[key] = text(value);
  }
  template <class Value>
  void put_unless(const char* key, const Value& value, const Value& usual) {
    if (all || value != usual) put(key, value);
  }
  static std::string text(int64_t value) { return std::to_string(value); }
  template <class Value>
  static std::string text(const Value& value) {
    return python_text(value);
  }
};

void write(const Convolution& op, AttributeWriter out) {
  out.put("kernel", Pair{op.kernel_h, op.kernel_w});
  out.put("num_filter", op.filters);
  out.put_unless("stride", Pair{op.stride_h, op.stride_w}, kOnes);
  out.put_unless("dilate", Pair{op.dilation_h, op.dilation_w}, kOnes);
  out.put_unless("pad", Pair{op.pad_h, op.pad_w}, kZeros);
  out.put_unless<int64_t>("num_group", op.groups, 1);
  out.put_unless("no_bias", !op.bias, false);
}

void write(const FullyConnected& op, AttributeWriter out) {
  out.put("num_hidden", op.outputs);
  out.put_unless("no_bias", !op.bias, false);
}

void write(const BatchNorm& op, AttributeWriter out) {
  out.put_unless("eps", op.epsilon, 1e-3);
  out.put_unless("momentum", op.momentum, 0.9);
  out.put_unless("fix_gamma", op.fix_gamma, true);
  out.put_unless("use_global_stats", op.global_statistics, false);
}

void write(const Activation& op, AttributeWriter out) {
  constexpr std::array kNames = {"relu", "tanh", "sigmoid", "softrelu", "softsign"};
  out.out["act_type"] = kNames.at(static_cast<size_t>(op.kind));
}

// MXNet 1.9 has no name for the rounding of version 0.7; rounding up is the closest equivalent.
void write(const Pooling& op, AttributeWriter out) {
  out.put("kernel", Pair{op.kernel_h, op.kernel_w});
  constexpr std::array kNames = {"max", "avg", "sum"};
  out.out["pool_type"] = kNames.at(static_cast<size_t>(op.kind));
  out.put_unless("stride", Pair{op.stride_h, op.stride_w}, kOnes);
  out.put_unless("pad", Pair{op.pad_h, op.pad_w}, kZeros);
  out.put_unless("global_pool", op.global, false);
  if (!op.global && op.rounding != Pooling::Rounding::kValid) out.out["pooling_convention"] = "full";
  if (op.divisor == Pooling::Divisor::kReal) out.put("count_include_pad", false);
}

void write(const LocalResponseNorm& op, AttributeWriter out) {
  out.put("nsize", op.size);
  out.put_unless("alpha", op.alpha, 1e-4);
  out.put_unless("beta", op.beta, 0.75);
  out.put_unless("knorm", op.k, 2.0);
}

void write(const SpatialTransformer& op, AttributeWriter out) {
  out.put("target_shape", Pair{op.height, op.width});
  out.out["transform_type"] = "affine";
  out.out["sampler_type"] = "bilinear";
}

void write(const SoftmaxOutput& op, AttributeWriter out) {
  out.put_unless("smooth_alpha", op.smooth_alpha, 0.0);
  out.put_unless("grad_scale", op.gradient_scale, 1.0);
  if (op.per_image) out.out["normalization"] = "batch";
}

Attributes written_attributes(const Op& op, size_t inputs, bool all) {
  Attributes attributes;
  AttributeWriter out{attributes, all};
  const auto count = static_cast<int64_t>(inputs);
  std::visit(Overloaded{[](const Input&) {}, [](const Flatten&) {}, [](const Identity&) {},
                        [&](const Concat&) { out.put("num_args", count); },
                        [&](const Add&) {
                          if (inputs != 2) out.put("num_args", count);
                        },
                        [&](const Scale& o) { out.put("scalar", o.factor); },
                        [&](const Dropout& o) { out.put_unless("p", o.rate, 0.5); },
                        [&](const LocalResponseNorm& o) { write(o, out); },
                        [&](const SpatialTransformer& o) { write(o, out); },
                        [&](const SoftmaxOutput& o) { write(o, out); }, [&](const Convolution& o) { write(o, out); },
                        [&](const FullyConnected& o) { write(o, out); }, [&](const BatchNorm& o) { write(o, out); },
                        [&](const Activation& o) { write(o, out); }, [&](const Pooling& o) { write(o, out); }},
             op);
  return attributes;
}

}  // namespace

std::vector<std::string> known_operators() {
  std::vector<std::string> names;
  for (const OperatorName& row : kOperators) {
    if (row.same_as.empty()) names.emplace_back(row.name);
  }
  return names;
}

std::string_view written_name(std::string_view name) {
  const OperatorName* row = find_operator(name);
  return row == nullptr || row->same_as.empty() ? name : row->same_as;
}

std::string_view usual_name(const Op& op, size_t inputs) {
  if (std::holds_alternative<Add>(op) && inputs != 2) return "add_n";
  return std::visit([](const auto& one) { return one.kNames.in_files; }, op);
}

Result<Op> read_operator(std::string_view name, const Attributes& attributes, size_t inputs) {
  const OperatorName* row = find_operator(name);
  if (row == nullptr) {
    return fail(Code::kUsage, "the operator '{}' does not exist in dtrain, which has {}", printable(name),
                fmt::join(known_operators(), ", "));
  }
  AttributeReader reader(attributes);
  const Op op = row->read(reader, inputs);
  const std::optional<std::string> problem = reader.finish();
  if (problem) return fail(Code::kUsage, "{}", *problem);
  return op;
}

std::vector<Argument> file_arguments(const Op& op, size_t inputs) {
  const bool takes_any_number = std::holds_alternative<Concat>(op) || std::holds_alternative<Add>(op);
  const size_t fixed = std::holds_alternative<SpatialTransformer>(op) ? 2 : 1;
  return arguments_of(op, takes_any_number ? inputs : fixed);
}

Attributes attributes_of(const Op& op, size_t inputs) {
  return written_attributes(op, inputs, false);
}

Attributes stated_attributes(const Op& op, size_t inputs, std::string_view stated) {
  Attributes attributes = attributes_of(op, inputs);
  const Attributes all = written_attributes(op, inputs, true);
  for (const WordLine& line : word_lines(stated)) {
    for (const std::string_view word : line.words) {
      const size_t equals = word.find('=');
      if (equals != std::string_view::npos) {
        attributes[std::string(word.substr(0, equals))] = word.substr(equals + 1);
        continue;
      }
      const auto found = all.find(word);
      DT_CHECK(found != all.end(), "{} has no attribute '{}'", op_name(op), word);
      attributes.insert(*found);
    }
  }
  return attributes;
}

}  // namespace dtrain::graph
