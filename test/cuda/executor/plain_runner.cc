#include "plain_runner.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "emulator.h"
#include "exec/reference/loops.h"

namespace dtrain::cuda::test {

namespace {

using exec::reference::Extent;

float number_at(Type type, const void* memory, int64_t i) {
  switch (type) {
    case Type::kFloat32: return static_cast<const float*>(memory)[i];
    case Type::kFloat16: return __half2float(static_cast<const __half*>(memory)[i]);
    case Type::kBfloat16: return __bfloat162float(static_cast<const __nv_bfloat16*>(memory)[i]);
  }
  return 0;
}

void set_number(Type type, void* memory, int64_t i, float value) {
  switch (type) {
    case Type::kFloat32: static_cast<float*>(memory)[i] = value; return;
    case Type::kFloat16: static_cast<__half*>(memory)[i] = __float2half_rn(value); return;
    case Type::kBfloat16: static_cast<__nv_bfloat16*>(memory)[i] = __float2bfloat16_rn(value); return;
  }
}

// Calls visit(planar, stored) with the indices of each number in [n, c, h, w] order and in NHWC order.
template <class Visit>
void for_each_number(const Extent& e, Visit&& visit) {
  int64_t stored = 0;
  for (int64_t n = 0; n < e.n; n++)
    for (int64_t h = 0; h < e.h; h++)
      for (int64_t w = 0; w < e.w; w++)
        for (int64_t c = 0; c < e.c; c++) visit(e.at(n, c, h, w), stored++);
}

std::vector<float> load(Type type, const Extent& e, const void* memory) {
  std::vector<float> planar(e.count());
  for_each_number(e, [&](size_t to, int64_t from) { planar[to] = number_at(type, memory, from); });
  return planar;
}

void store(Type type, const Extent& e, const std::vector<float>& planar, void* memory) {
  for_each_number(e, [&](size_t from, int64_t to) { set_number(type, memory, to, planar[from]); });
}

void add(const std::vector<float>& more, std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); i++) values[i] += more[i];
}

class PlainPlan final : public ConvolutionPlan {
 public:
  explicit PlainPlan(const ConvolutionPass& pass) : pass_(pass) {}

  // Not zero, and run() overwrites the workspace, so data that others keep there is destroyed.
  [[nodiscard]] size_t workspace_bytes() const override { return 1000; }

  [[nodiscard]] Call bind(const ConvolutionPointers& pointers) const override {
    for (const void* p : {pointers.x, pointers.w, pointers.y, pointers.bias, pointers.z}) {
      DT_CHECK(reinterpret_cast<uintptr_t>(p) % 16 == 0, "{}: a tensor lies at {}", pass_.text(), p);
    }
    return [this, pointers](cudaStream_t stream) {
      const size_t added = !pass_.adds ? 0 : pass_.pass == Pass::kForward ? y().count() : x().count();
      const auto elements = static_cast<int64_t>(x().count() + w().count() + y().count() + added);
      emulator::record({pass_.text(), {}, {}, elements * bytes_of(pass_.type)});
      emulator::queue(stream, [this, pointers] { run(pointers); });
    };
  }

 private:
  [[nodiscard]] Extent x() const { return {pass_.shape.n, pass_.shape.c, pass_.shape.h, pass_.shape.w}; }
  [[nodiscard]] Extent w() const {
    const graph::Convolution& op = pass_.shape.op;
    return {op.filters, pass_.shape.c / op.groups, op.kernel_h, op.kernel_w};
  }
  [[nodiscard]] Extent y() const { return {pass_.shape.n, pass_.shape.op.filters, pass_.shape.p(), pass_.shape.q()}; }

  void run(const ConvolutionPointers& at) const {
    using namespace exec::reference;
    std::memset(at.workspace, 0xEE, workspace_bytes());
    const graph::Convolution& op = pass_.shape.op;
    const Type type = pass_.type;
    std::vector<float> result;
    switch (pass_.pass) {
      case Pass::kForward: {
        const bool has_bias = pass_.has_bias();
        const std::vector<float> bias = has_bias ? load(type, {1, op.filters, 1, 1}, at.bias) : std::vector<float>{};
        graph::Convolution with_bias = op;
        with_bias.bias = has_bias;
        result.resize(y().count());
        convolution_forward<float>(with_bias, x(), load(type, x(), at.x), load(type, w(), at.w), bias, y(), result);
        if (pass_.adds) add(load(type, y(), at.z), result);
        return store(type, y(), result, at.y);
      }
      case Pass::kBackwardData:
        result.resize(x().count());
        convolution_backward_data<float>(op, x(), load(type, w(), at.w), y(), load(type, y(), at.y), result);
        if (pass_.adds) add(load(type, x(), at.x), result);
        return store(type, x(), result, at.x);
      case Pass::kBackwardFilter:
        result.resize(w().count());
        convolution_backward_weights<float>(op, x(), load(type, x(), at.x), y(), load(type, y(), at.y), result, {});
        return store(type, w(), result, at.w);
      default: DT_CHECK(false, "{} is not asked for", pass_.text());
    }
  }

  ConvolutionPass pass_;
};

class PlainRunner final : public ConvolutionRunner {
 public:
  explicit PlainRunner(std::string refused) : refused_(std::move(refused)) {}
  Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass& pass, bool) override {
    if (!refused_.empty() && pass.text().find(refused_) != std::string::npos) {
      return fail(Code::kDevice, "no plan for {}", pass.text());
    }
    return std::make_shared<PlainPlan>(pass);
  }

 private:
  std::string refused_;
};

}  // namespace

std::shared_ptr<ConvolutionRunner> plain_runner(std::string refused) {
  return std::make_shared<PlainRunner>(std::move(refused));
}

std::unique_ptr<exec::Backend> emulated_backend() {
  return make_backend(0, plain_runner());
}

}  // namespace dtrain::cuda::test
