#include "exec/cpu/bound.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "base/overloaded.h"
#include "exec/contract.h"
#include "exec/cpu/convolution.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/parallel.h"
#include "exec/fuse.h"
#include "graph/flow.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

namespace {

using graph::NodeId;
using Clock = std::chrono::steady_clock;

// Times a primitive with separate memory for each argument, filled with ordinary values. Returns the median of warm
// runs.
class Stopwatch {
 public:
  explicit Stopwatch(dnnl::engine engine) : engine_(std::move(engine)), stream_(engine_) {}

  double time(const dnnl::primitive& primitive, const std::vector<std::pair<int, Md>>& args) {
    std::vector<dnnl::memory> memories;
    std::unordered_map<int, dnnl::memory> bound;
    for (const auto& [key, md] : args) {
      if (md.get_size() == 0) continue;
      memories.emplace_back(md, engine_);
      // Workspaces hold positions and masks, not floats.
      const float number = key == DNNL_ARG_WORKSPACE ? 0.0f : 0.25f;
      std::fill_n(static_cast<float*>(memories.back().get_data_handle()), md.get_size() / sizeof(float), number);
      bound.insert({key, memories.back()});
    }
    const auto run = [&] {
      const auto begin = Clock::now();
      primitive.execute(stream_, bound);
      stream_.wait();
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    run();
    const double first = run();
    // The primitive runs for about 20 ms, but at least 3 times.
    const auto runs = std::clamp<size_t>(static_cast<size_t>(0.02 / std::max(first, 1e-6)), 3, 200);
    std::vector<double> seconds(runs);
    for (double& s : seconds) s = run();
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(runs / 2), seconds.end());
    return seconds[runs / 2];
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
};

template <class Pd>
std::pair<int, Md> scratchpad(const Pd& pd) {
  return {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()};
}

class Meter {
 public:
  Meter(const graph::Graph& graph, const graph::Shapes& shapes, const Options& options)
      : graph_(graph),
        shapes_(shapes),
        options_(options),
        fusions_(find_fusions(graph, false)),
        engine_(dnnl::engine::kind::cpu, 0),
        watch_(engine_),
        layout_(graph.nodes().size()),
        readers_(graph::readers(graph)) {}

  Bound run() {
    const std::vector<NodeId> order = graph_.canonical_order();
    for (const NodeId id : order) {
      layout_[id] = graph_.node(id).data_inputs.empty() ? plain_md(dims(id)) : layout_[graph_.node(id).data_inputs[0]];
      std::visit(
          Overloaded{[&](const graph::Convolution& op) { convolution(id, op); },
                     [&](const graph::FullyConnected& op) { inner_product(id, op); },
                     [&](const graph::BatchNorm& op) { batch_norm(id, op); },
                     [&](const graph::Activation& op) { activation(id, op); },
                     [&](const graph::Pooling& op) { pooling(id, op); }, [&](const graph::Concat&) { concat(id); },
                     [&](const graph::Add&) { sum(id, "sum", graph_.node(id).data_inputs.size()); },
                     [&](const graph::Scale&) { scale(id); }, [](const graph::Dropout&) {},
                     [&](const graph::LocalResponseNorm& op) { response_norm(id, op); },
                     [&](const graph::SpatialTransformer&) { layout_[id] = plain_md(dims(id)); },
                     [&](const graph::Flatten&) { layout_[id] = plain_md(dims(id)); }, [](const graph::Input&) {},
                     [](const graph::Identity&) {}, [](const graph::SoftmaxOutput&) {}},
          graph_.node(id).op);
      if (readers_[id].size() > 1 && !is_input(id)) sum(id, "sum of gradients", readers_[id].size());
    }
    return std::move(bound_);
  }

 private:
  [[nodiscard]] Dims dims(NodeId id) const {
    Dims result{options_.batch_size};
    result.insert(result.end(), shapes_.output[id].begin(), shapes_.output[id].end());
    return result;
  }
  [[nodiscard]] NodeId input(NodeId id) const { return graph_.node(id).data_inputs[0]; }
  [[nodiscard]] bool is_input(NodeId id) const { return std::holds_alternative<graph::Input>(graph_.node(id).op); }
  void line(NodeId id, const char* what, double direct, double winograd = 0) {
    bound_.lines.push_back({graph_.node(id).name, what, direct, winograd});
  }

  void convolution(NodeId id, const graph::Convolution& op) {
    ConvolutionSpec spec = open_convolution(op, dims(input(id)), dims(id));
    const auto forward = cpu::convolution_forward(engine_, spec);
    layout_[id] = forward.dst_desc();
    const auto both = [&](const char* what, const auto& seconds) {
      spec.algorithm = dnnl::algorithm::convolution_direct;
      const double direct = seconds();
      spec.algorithm = dnnl::algorithm::convolution_winograd;
      line(id, what, direct, winograd_fits(op, dims(input(id))[1]) ? seconds() : 0);
    };
    both("convolution", [&] { return time_forward(spec); });
    both("convolution backward weights", [&] { return time_backward_weights(spec, forward); });
    if (!is_input(input(id))) both("convolution backward data", [&] { return time_backward_data(spec, forward); });
  }

  double time_forward(const ConvolutionSpec& spec) {
    const auto pd = cpu::convolution_forward(engine_, spec);
    if (!pd) return 0;
    return watch_.time(dnnl::convolution_forward(pd), {{DNNL_ARG_SRC, pd.src_desc()},
                                                       {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                       {DNNL_ARG_BIAS, spec.bias},
                                                       {DNNL_ARG_DST, pd.dst_desc()},
                                                       scratchpad(pd)});
  }

  double time_backward_weights(const ConvolutionSpec& spec, const dnnl::convolution_forward::primitive_desc& forward) {
    const auto pd = cpu::convolution_backward_weights(engine_, spec, forward);
    if (!pd) return 0;
    return watch_.time(dnnl::convolution_backward_weights(pd), {{DNNL_ARG_SRC, pd.src_desc()},
                                                                {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                                                {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                                                {DNNL_ARG_DIFF_BIAS, spec.bias},
                                                                scratchpad(pd)});
  }

  double time_backward_data(const ConvolutionSpec& spec, const dnnl::convolution_forward::primitive_desc& forward) {
    const auto pd = cpu::convolution_backward_data(engine_, spec, forward);
    if (!pd) return 0;
    return watch_.time(dnnl::convolution_backward_data(pd), {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                                             {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                             {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                                                             scratchpad(pd)});
  }

  void inner_product(NodeId id, const graph::FullyConnected& op) {
    const Dims x = dims_of(layout_[input(id)]);
    int64_t inputs = 1;
    for (size_t i = 1; i < x.size(); i++) inputs *= x[i];
    const Md src = any_md({x[0], inputs}), weights = any_md({op.outputs, inputs}), dst = any_md({x[0], op.outputs});
    const Md bias = op.bias ? plain_md({op.outputs}) : Md();
    const auto forward = inner_product_forward(engine_, src, weights, bias, dst);
    line(id, "inner product",
         watch_.time(dnnl::inner_product_forward(forward), {{DNNL_ARG_SRC, forward.src_desc()},
                                                            {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                                            {DNNL_ARG_BIAS, bias},
                                                            {DNNL_ARG_DST, forward.dst_desc()},
                                                            scratchpad(forward)}));
    const auto by_weights = inner_product_backward_weights(engine_, src, weights, bias, dst, forward);
    line(id, "inner product backward weights",
         watch_.time(dnnl::inner_product_backward_weights(by_weights),
                     {{DNNL_ARG_SRC, by_weights.src_desc()},
                      {DNNL_ARG_DIFF_DST, by_weights.diff_dst_desc()},
                      {DNNL_ARG_DIFF_WEIGHTS, by_weights.diff_weights_desc()},
                      {DNNL_ARG_DIFF_BIAS, bias},
                      scratchpad(by_weights)}));
    const auto by_data = inner_product_backward_data(engine_, src, weights, dst, forward);
    line(id, "inner product backward data",
         watch_.time(dnnl::inner_product_backward_data(by_data), {{DNNL_ARG_DIFF_DST, by_data.diff_dst_desc()},
                                                                  {DNNL_ARG_WEIGHTS, by_data.weights_desc()},
                                                                  {DNNL_ARG_DIFF_SRC, by_data.diff_src_desc()},
                                                                  scratchpad(by_data)}));
    layout_[id] = plain_md(dims(id));
  }

  void batch_norm(NodeId id, const graph::BatchNorm& op) {
    using Flags = dnnl::normalization_flags;
    Flags flags = Flags::use_shift;
    if (!op.fix_gamma) flags = flags | Flags::use_scale;
    if (fusions_.relu_after[id] != Fusions::kNone) flags = flags | Flags::fuse_norm_relu;
    if (op.global_statistics) flags = flags | Flags::use_global_stats;
    const Md& x = layout_[id];
    const Md channel = plain_md({dims_of(x)[1]});
    const auto epsilon = static_cast<float>(op.epsilon);
    const auto forward = batch_norm_forward(engine_, dnnl::prop_kind::forward_training, x, epsilon, flags);
    const Md mask = forward.workspace_desc();
    std::vector<std::pair<int, Md>> args{
        {DNNL_ARG_SRC, x},         {DNNL_ARG_DST, x},         {DNNL_ARG_MEAN, channel},   {DNNL_ARG_VARIANCE, channel},
        {DNNL_ARG_SCALE, channel}, {DNNL_ARG_SHIFT, channel}, {DNNL_ARG_WORKSPACE, mask}, scratchpad(forward)};
    line(id, "batch norm", watch_.time(dnnl::batch_normalization_forward(forward), args));
    const auto backward = batch_norm_backward(engine_, x, epsilon, flags, forward);
    args = {{DNNL_ARG_SRC, x},
            {DNNL_ARG_DIFF_SRC, x},
            {DNNL_ARG_DIFF_DST, x},
            {DNNL_ARG_MEAN, channel},
            {DNNL_ARG_VARIANCE, channel},
            {DNNL_ARG_SCALE, channel},
            {DNNL_ARG_DIFF_SCALE, channel},
            {DNNL_ARG_DIFF_SHIFT, channel},
            {DNNL_ARG_WORKSPACE, mask},
            scratchpad(backward)};
    if (kBatchNormBackwardTakesShift) args.emplace_back(DNNL_ARG_SHIFT, channel);
    line(id, "batch norm backward", watch_.time(dnnl::batch_normalization_backward(backward), args));
  }

  void activation(NodeId id, const graph::Activation& op) {
    const NodeId producer = fusions_.computed_by[id];
    if (producer != Fusions::kNone && std::holds_alternative<graph::BatchNorm>(graph_.node(producer).op)) return;
    using Kind = graph::Activation::Kind;
    using Algorithm = dnnl::algorithm;
    static constexpr Algorithm kForward[] = {Algorithm::eltwise_relu, Algorithm::eltwise_tanh,
                                             Algorithm::eltwise_logistic, Algorithm::eltwise_soft_relu,
                                             Algorithm::eltwise_linear};  // in place of softsign, which oneDNN lacks
    static constexpr Algorithm kBackward[] = {
        Algorithm::eltwise_relu_use_dst_for_bwd, Algorithm::eltwise_tanh_use_dst_for_bwd,
        Algorithm::eltwise_logistic_use_dst_for_bwd, Algorithm::eltwise_soft_relu, Algorithm::eltwise_linear};
    const auto kind = static_cast<size_t>(op.kind);
    const Md& x = layout_[id];
    const auto forward = eltwise_forward(engine_, kForward[kind], x);
    line(id, "eltwise",
         watch_.time(dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, x}, scratchpad(forward)}));
    const auto backward = eltwise_backward(engine_, kBackward[kind], x, eltwise_forward(engine_, kBackward[kind], x));
    const bool by_source = op.kind == Kind::kSoftrelu || op.kind == Kind::kSoftsign;
    const int source = by_source ? DNNL_ARG_SRC : DNNL_ARG_DST;
    line(id, "eltwise backward",
         watch_.time(dnnl::eltwise_backward(backward),
                     {{source, x}, {DNNL_ARG_DIFF_DST, x}, {DNNL_ARG_DIFF_SRC, x}, scratchpad(backward)}));
  }

  void response_norm(NodeId id, const graph::LocalResponseNorm& op) {
    const Md& x = layout_[id];
    const auto forward = response_norm_forward(engine_, true, x, op);
    const auto backward = response_norm_backward(engine_, x, op, forward);
    const std::pair<int, Md> workspace{DNNL_ARG_WORKSPACE, forward.workspace_desc()};
    line(id, "local response norm",
         watch_.time(dnnl::lrn_forward(forward),
                     {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, x}, workspace, scratchpad(forward)}));
    line(id, "local response norm backward",
         watch_.time(
             dnnl::lrn_backward(backward),
             {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, x}, {DNNL_ARG_DIFF_SRC, x}, workspace, scratchpad(backward)}));
  }

  void pooling(NodeId id, const graph::Pooling& op) {
    const Md x = layout_[input(id)];
    const Dims in = dims_of(x), out = dims(id);
    const int64_t kernel_h = op.global ? in[2] : op.kernel_h, kernel_w = op.global ? in[3] : op.kernel_w;
    const auto shape = blocked_shape(x);
    const Md y = shape ? md_in(shape->order, out) : any_md(out);
    const bool maximum = op.kind == graph::Pooling::Kind::kMax;
    const int64_t pad_h = op.global ? 0 : op.pad_h, pad_w = op.global ? 0 : op.pad_w;
    const PoolingSpec spec{
        .algorithm = maximum ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_include_padding,
        .src = x,
        .dst = y,
        .strides = {op.stride_h, op.stride_w},
        .kernel = {kernel_h, kernel_w},
        .pad_left = {pad_h, pad_w},
        .pad_right = {(out[2] - 1) * op.stride_h + kernel_h - in[2] - pad_h,
                      (out[3] - 1) * op.stride_w + kernel_w - in[3] - pad_w}};
    const auto forward = pooling_forward(engine_, spec);
    layout_[id] = forward.dst_desc();
    const Md places = maximum ? forward.workspace_desc() : Md();
    line(id, "pooling",
         watch_.time(dnnl::pooling_forward(forward), {{DNNL_ARG_SRC, x},
                                                      {DNNL_ARG_DST, forward.dst_desc()},
                                                      {DNNL_ARG_WORKSPACE, places},
                                                      scratchpad(forward)}));
    if (is_input(input(id))) return;
    const auto backward = pooling_backward(engine_, spec, forward);
    line(id, "pooling backward",
         watch_.time(dnnl::pooling_backward(backward), {{DNNL_ARG_DIFF_SRC, x},
                                                        {DNNL_ARG_DIFF_DST, forward.dst_desc()},
                                                        {DNNL_ARG_WORKSPACE, places},
                                                        scratchpad(backward)}));
  }

  void sum(NodeId id, const char* what, size_t count) {
    const auto pd = sum_of(engine_, layout_[id], std::vector<Md>(count, layout_[id]));
    std::vector<std::pair<int, Md>> args{{DNNL_ARG_DST, layout_[id]}, scratchpad(pd)};
    for (size_t i = 0; i < count; i++) args.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), layout_[id]);
    line(id, what, watch_.time(dnnl::sum(pd), args));
  }

  // Times the forward and backward pass of a scaling as oneDNN's sum of a single tensor, which also takes a factor.
  void scale(NodeId id) {
    for (const char* what : {"scale", "scale backward"}) sum(id, what, 1);
  }

  void concat(NodeId id) {
    std::vector<Md> parts;
    for (const NodeId part : graph_.node(id).data_inputs) parts.push_back(layout_[part]);
    const auto pd = concat_of(engine_, any_md(dims(id)), 1, parts);
    layout_[id] = pd.dst_desc();
    std::vector<std::pair<int, Md>> args{{DNNL_ARG_DST, pd.dst_desc()}, scratchpad(pd)};
    for (size_t i = 0; i < parts.size(); i++) args.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), parts[i]);
    line(id, "concat", watch_.time(dnnl::concat(pd), args));
  }

  const graph::Graph& graph_;
  const graph::Shapes& shapes_;
  const Options& options_;
  Fusions fusions_;
  dnnl::engine engine_;
  Stopwatch watch_;
  std::vector<Md> layout_;  // for each node: the layout that convolutions choose and that the nodes after them keep
  std::vector<std::vector<NodeId>> readers_;  // for each node: the nodes that read it
  Bound bound_;
};

}  // namespace

double Bound::direct_s() const {
  double sum = 0;
  for (const BoundLine& line : lines) sum += line.direct_s;
  return sum;
}

double Bound::best_s() const {
  double sum = 0;
  for (const BoundLine& line : lines) sum += line.best_s();
  return sum;
}

Result<Bound> measure_bound(const graph::Graph& graph, const Options& options) {
  DT_TRY(const graph::Shapes shapes, infer_shapes(graph, options));
  const Team team(options.threads);
  return Meter(graph, shapes, options).run();
}

}  // namespace dtrain::exec::cpu
