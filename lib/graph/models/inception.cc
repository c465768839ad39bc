// Inception with batch normalization, in the forms for images of 28 and of 224 pixels, as defined by MXNet 0.7, MXNet-G
// and MXNet 1.x.
#include "graph/models/builder.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

// The epsilon of batch normalization in MXNet 1.x, just above the smallest one that cuDNN accepts.
constexpr double kEpsilon1x = 1e-10 + 1e-5;

// The differences between the three versions, apart from names. `halving_pad` is the padding of the poolings that halve
// the map. If poolings round up, they need no padding to match the output size of the convolution next to them.
struct Form {
  double epsilon;
  bool fix_gamma;
  Pooling::Rounding rounding;
  Pooling::Divisor divisor;
  int64_t halving_pad;
  Stated stated;
};
constexpr Form kForm1x{kEpsilon1x,
                       false,
                       Pooling::Rounding::kValid,
                       Pooling::Divisor::kPadded,
                       1,
                       {"pad stride", "eps fix_gamma momentum", "stride"}};
constexpr Stated kStatedOld{"pad stride", "", "stride"};
constexpr Form kFormMxnetG{1e-3, true, Pooling::Rounding::kValid, Pooling::Divisor::kKernel, 1, kStatedOld};
constexpr Form kFormV07{1e-3, true, Pooling::Rounding::kV07, Pooling::Divisor::kKernel, 0, kStatedOld};

// Builds units of convolution, batch normalization and ReLU. If `named`, nodes are named after their unit. Otherwise
// all names are generated in the same way as by MXNet, and the given names are ignored.
class InceptionUnits {
 public:
  InceptionUnits(Builder& b, const ModelOptions& options, const Form& form, bool named)
      : b_(b),
        form_(form),
        named_(named),
        batch_norm_{.epsilon = form.epsilon, .momentum = options.bn_momentum, .fix_gamma = form.fix_gamma} {}

  NodeId unit(const std::string& name, const Convolution& op, NodeId x) {
    x = add("conv_" + name, op, {x});
    x = add("bn_" + name, batch_norm_, {x});
    return add("relu_" + name, Activation{}, {x});
  }

  NodeId pool(const std::string& name, Pooling::Kind kind, int64_t kernel, int64_t stride, int64_t pad, NodeId x) {
    return add(name, pooling(kind, kernel, stride, pad, form_.rounding, form_.divisor), {x});
  }
  // Halves the height and width.
  NodeId halve(const std::string& name, NodeId x) {
    return pool(name, Pooling::Kind::kMax, 3, 2, form_.halving_pad, x);
  }

  NodeId add(const std::string& name, Op op, const std::vector<NodeId>& inputs) {
    return named_ ? b_.add(name, op, inputs) : b_.add(op, inputs);
  }

 private:
  Builder& b_;
  Form form_;
  bool named_;
  BatchNorm batch_norm_;
};

// Modules and body for images of up to 28 pixels.

NodeId simple(InceptionUnits& u, const std::string& m, NodeId x, int64_t filters_1x1, int64_t filters_3x3) {
  const NodeId a = u.unit(m + "_1x1", convolution(filters_1x1, 1), x);
  const NodeId b = u.unit(m + "_3x3", convolution(filters_3x3, 3, 1, 1), x);
  return u.add(m + "_ch_concat", Concat{}, {a, b});
}

NodeId down(InceptionUnits& u, const std::string& m, NodeId x, int64_t filters) {
  const NodeId a = u.unit(m + "_conv", convolution(filters, 3, 2, 1), x);
  const NodeId b = u.halve(m + "_pool", x);
  return u.add(m + "_ch_concat", Concat{}, {a, b});
}

NodeId small_body(InceptionUnits& u, NodeId x) {
  x = u.unit("1", convolution(96, 3, 1, 1), x);
  x = simple(u, "in3a", x, 32, 32);
  x = simple(u, "in3b", x, 32, 48);
  x = down(u, "in3c", x, 80);
  x = simple(u, "in4a", x, 112, 48);
  x = simple(u, "in4b", x, 96, 64);
  x = simple(u, "in4c", x, 80, 80);
  x = simple(u, "in4d", x, 48, 96);
  x = down(u, "in4e", x, 96);
  x = simple(u, "in5a", x, 176, 160);
  return simple(u, "in5b", x, 176, 160);
}

// Modules and body for images of 224 pixels.

// Numbers of filters in a module. The 3x3 branch has convolutions with `reduce` and `out` filters. The branch with two
// 3x3 convolutions has `double_reduce` and `double_out`.
struct Branches {
  int64_t reduce, out, double_reduce, double_out;
};

struct Pool {
  Pooling::Kind kind;
  int64_t project;
};

NodeId double_branch(InceptionUnits& u, const std::string& m, NodeId x, const Branches& f, int64_t stride) {
  x = u.unit(m + "_double_3x3_reduce", convolution(f.double_reduce, 1), x);
  x = u.unit(m + "_double_3x3_0", convolution(f.double_out, 3, 1, 1), x);
  return u.unit(m + "_double_3x3_1", convolution(f.double_out, 3, stride, 1), x);
}

NodeId branch(InceptionUnits& u, const std::string& m, NodeId x, const Branches& f, int64_t stride) {
  x = u.unit(m + "_3x3_reduce", convolution(f.reduce, 1), x);
  return u.unit(m + "_3x3", convolution(f.out, 3, stride, 1), x);
}

NodeId module_a(InceptionUnits& u, const std::string& m, NodeId x, int64_t filters_1x1, const Branches& f,
                const Pool& pool) {
  const NodeId a = u.unit(m + "_1x1", convolution(filters_1x1, 1), x);
  const NodeId b = branch(u, m, x, f, 1);
  const NodeId c = double_branch(u, m, x, f, 1);
  const char* kind = pool.kind == Pooling::Kind::kMax ? "max" : "avg";
  const NodeId pooled = u.pool(kind + ("_pool_" + m + "_pool"), pool.kind, 3, 1, 1, x);
  const NodeId d = u.unit(m + "_proj", convolution(pool.project, 1), pooled);
  return u.add("ch_concat_" + m + "_chconcat", Concat{}, {a, b, c, d});
}

NodeId module_b(InceptionUnits& u, const std::string& m, NodeId x, const Branches& f) {
  const NodeId a = branch(u, m, x, f, 2);
  const NodeId b = double_branch(u, m, x, f, 2);
  const NodeId c = u.halve("max_pool_" + m + "_pool", x);
  return u.add("ch_concat_" + m + "_chconcat", Concat{}, {a, b, c});
}

struct StemNames {
  const char *unit1, *pool1, *reduce, *unit2, *pool2;
};
constexpr StemNames kStem1x{"1", "pool_1", "2_red", "2", "pool_2"};
constexpr StemNames kStemOld{"conv1", "pool1", "conv2red", "conv2", "pool2"};

NodeId large_body(InceptionUnits& u, const StemNames& stem, NodeId x) {
  constexpr auto kAverage = Pooling::Kind::kAverage, kMax = Pooling::Kind::kMax;
  x = u.unit(stem.unit1, convolution(64, 7, 2, 3), x);
  x = u.pool(stem.pool1, kMax, 3, 2, 0, x);
  x = u.unit(stem.reduce, convolution(64, 1), x);
  x = u.unit(stem.unit2, convolution(192, 3, 1, 1), x);
  x = u.pool(stem.pool2, kMax, 3, 2, 0, x);
  x = module_a(u, "3a", x, 64, {64, 64, 64, 96}, {kAverage, 32});
  x = module_a(u, "3b", x, 64, {64, 96, 64, 96}, {kAverage, 64});
  x = module_b(u, "3c", x, {128, 160, 64, 96});
  x = module_a(u, "4a", x, 224, {64, 96, 96, 128}, {kAverage, 128});
  x = module_a(u, "4b", x, 192, {96, 128, 96, 128}, {kAverage, 128});
  x = module_a(u, "4c", x, 160, {128, 160, 128, 160}, {kAverage, 128});
  x = module_a(u, "4d", x, 96, {128, 192, 160, 192}, {kAverage, 128});
  x = module_b(u, "4e", x, {128, 192, 192, 256});
  x = module_a(u, "5a", x, 352, {192, 320, 160, 224}, {kAverage, 128});
  return module_a(u, "5b", x, 352, {192, 320, 192, 224}, {kMax, 128});
}

// The last pooling. It has a single window, because the map has 7 x 7 pixels.
Pooling last_pooling(const Form& form) {
  return pooling(Pooling::Kind::kAverage, 7, 1, 0, form.rounding);
}

Graph small_graph(const ModelOptions& options, const Form& form) {
  Builder b(form.stated);
  InceptionUnits units(b, options, form, false);
  NodeId x = b.add("global_pool", last_pooling(form), {small_body(units, b.data())});
  b.state(x, "");
  x = b.add("flatten1", Flatten{}, {x});
  x = b.add("fc1", FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

// The body of inception-bn-full, which is wider up to its third stage.
NodeId full_body(InceptionUnits& u, NodeId x) {
  constexpr auto kAverage = Pooling::Kind::kAverage, kMax = Pooling::Kind::kMax;
  x = u.unit("conv1", convolution(96, 7, 2, 3), x);
  x = u.pool("pool1", kMax, 3, 2, 0, x);
  x = u.unit("conv2red", convolution(128, 1), x);
  x = u.unit("conv2", convolution(288, 3, 1, 1), x);
  x = u.pool("pool2", kMax, 3, 2, 0, x);
  x = module_a(u, "3a", x, 96, {96, 96, 96, 144}, {kAverage, 48});
  x = module_a(u, "3b", x, 96, {96, 144, 96, 144}, {kAverage, 96});
  x = module_b(u, "3c", x, {192, 240, 96, 144});
  x = module_a(u, "4a", x, 224, {64, 96, 96, 128}, {kAverage, 128});
  x = module_a(u, "4b", x, 192, {96, 128, 96, 128}, {kAverage, 128});
  x = module_a(u, "4c", x, 160, {128, 160, 128, 160}, {kAverage, 128});
  x = module_a(u, "4d", x, 96, {128, 192, 160, 96}, {kAverage, 128});
  x = module_b(u, "4e", x, {128, 192, 192, 256});
  x = module_a(u, "5a", x, 352, {192, 320, 160, 224}, {kAverage, 128});
  return module_a(u, "5b", x, 352, {192, 320, 192, 224}, {kMax, 128});
}

// The network for images of 224 pixels only, as in the versions before 1.x.
Graph large_graph(const ModelOptions& options, const Form& form, bool full) {
  Stated stated = form.stated;
  if (full) stated.convolution = "pad stride workspace=512";
  Builder b(stated);
  InceptionUnits units(b, options, form, true);
  NodeId x = full ? full_body(units, b.data()) : large_body(units, kStemOld, b.data());
  x = b.add("global_pool", last_pooling(form), {x});
  x = b.add("flatten", Flatten{}, {x});
  x = b.add("fc1", FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace

Result<Graph> inception_bn_28_small_of_mxnet_g(const ModelOptions& options, int64_t) {
  return small_graph(options, kFormMxnetG);
}

Result<Graph> inception_bn_28_small_of_v07(const ModelOptions& options, int64_t) {
  return small_graph(options, kFormV07);
}

Result<Graph> inception_bn_of_mxnet_g(const ModelOptions& options, int64_t) {
  return large_graph(options, kFormMxnetG, false);
}

Result<Graph> inception_bn_of_v07(const ModelOptions& options, int64_t) {
  return large_graph(options, kFormV07, false);
}

Result<Graph> inception_bn_full_of_mxnet_g(const ModelOptions& options, int64_t) {
  return large_graph(options, kFormMxnetG, true);
}

Result<Graph> inception_bn_full_of_v07(const ModelOptions& options, int64_t) {
  return large_graph(options, kFormV07, true);
}

Result<Graph> inception_bn(const ModelOptions& options, int64_t) {
  Builder b(kForm1x.stated);
  InceptionUnits units(b, options, kForm1x, true);
  const bool small = options.image[1] <= 28;
  NodeId x = small ? small_body(units, b.data()) : large_body(units, kStem1x, b.data());
  x = b.add("global_pool", last_pooling(kForm1x), {x});
  if (small) b.state(x, "");
  x = b.add(Flatten{}, {x});
  x = b.add(FullyConnected{options.num_classes}, {x});
  b.add("softmax", SoftmaxOutput{options.smooth_alpha}, {x});
  return b.take();
}

}  // namespace dtrain::graph
