// Runs plans on this host's device and compares them with plain loops. Inputs are small whole numbers, so that sums
// are exact in any order and every type, and the results must be equal bit for bit.
#include <iostream>
#include <random>

#include "cuda/dnn/measure.h"
#include "cuda/dnn/planner.h"
#include "support/catch.h"
#include "support/must.h"

namespace dtrain::cuda {

namespace {

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Floats on the device.
class DeviceFloats {
 public:
  explicit DeviceFloats(const std::vector<float>& values) : size_(values.size()) {
    if (cudaMalloc(&memory_, size_ * sizeof(float)) != cudaSuccess) throw std::runtime_error("no device memory");
    cudaMemcpy(memory_, values.data(), size_ * sizeof(float), cudaMemcpyDefault);
  }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  ~DeviceFloats() { cudaFree(memory_); }
  [[nodiscard]] void* get() const { return memory_; }
  [[nodiscard]] std::vector<float> read() const {
    std::vector<float> values(size_);
    cudaMemcpy(values.data(), memory_, size_ * sizeof(float), cudaMemcpyDefault);
    return values;
  }

 private:
  size_t size_;
  void* memory_ = nullptr;
};

std::vector<float> whole_numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 7) - 3);
  return values;
}

// x in NHWC, w in KRSC, y in NHWC, as on the device.
struct Tensors {
  std::vector<float> x, w, y, bias;
};

// Calls term(x, w, y) with the indices of each product of the convolution.
void for_each_term(const ConvolutionShape& s, const auto& term) {
  const graph::Convolution& op = s.op;
  for (int64_t n = 0; n < s.n; n++)
    for (int64_t p = 0; p < s.p(); p++)
      for (int64_t q = 0; q < s.q(); q++)
        for (int64_t k = 0; k < op.filters; k++)
          for (int64_t i = 0; i < op.kernel_h; i++)
            for (int64_t j = 0; j < op.kernel_w; j++)
              for (int64_t c = 0; c < s.c; c++) {
                const int64_t h = p * op.stride_h - op.pad_h + i, w = q * op.stride_w - op.pad_w + j;
                if (h < 0 || w < 0 || h >= s.h || w >= s.w) continue;
                term(((n * s.h + h) * s.w + w) * s.c + c, ((k * op.kernel_h + i) * op.kernel_w + j) * s.c + c,
                     ((n * s.p() + p) * s.q() + q) * op.filters + k);
              }
}

Tensors expected(const ConvolutionShape& s, Pass pass, Tensors t) {
  std::vector<float>& result = pass == Pass::kForward ? t.y : pass == Pass::kBackwardData ? t.x : t.w;
  std::fill(result.begin(), result.end(), 0.0F);
  for_each_term(s, [&](int64_t x, int64_t w, int64_t y) {
    if (pass == Pass::kForward) t.y[y] += t.x[x] * t.w[w];
    if (pass == Pass::kBackwardData) t.x[x] += t.y[y] * t.w[w];
    if (pass == Pass::kBackwardFilter) t.w[w] += t.x[x] * t.y[y];
  });
  if (pass == Pass::kForward && s.op.bias) {
    for (size_t i = 0; i < t.y.size(); i++) t.y[i] += t.bias[i % t.bias.size()];
  }
  return t;
}

Tensors run(cudnnHandle_t handle, const Plan& plan, const ConvolutionPass& pass, const Tensors& t) {
  const DeviceFloats x(t.x), w(t.w), y(t.y), bias(t.bias);
  const DeviceFloats workspace(std::vector<float>(plan.workspace_bytes() / sizeof(float) + 1));
  std::vector<Binding> bindings = {{Slot::kX, x.get()}, {Slot::kW, w.get()}, {Slot::kY, y.get()}};
  if (pass.pass == Pass::kForward && pass.shape.op.bias) bindings.push_back({Slot::kBias, bias.get()});
  plan.execute(handle, bindings, workspace.get(), nullptr);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  return {x.read(), w.read(), y.read(), t.bias};
}

const ConvolutionShape kShapes[] = {
    {2, 8, 9, 7, {.filters = 16, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}},
    {3,
     4,
     11,
     11,
     {.filters = 8, .kernel_h = 5, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 2, .bias = false}},
    {16, 32, 1, 1, {.filters = 10}},  // a fully connected layer
    {2, 3, 8, 8, {.filters = 20, .kernel_h = 5, .kernel_w = 5}},
};

}  // namespace

TEST_CASE("a plan computes what plain loops compute, chosen or from the cache", "[cuda]") {
  if (!has_device()) {
    std::cout << "skipped: no CUDA device\n";
    return;
  }
  cudnnHandle_t handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  {
    const Device device = test::must(Device::of(handle));
    std::cout << device.json() << "\n";  // for h200.json
    PlanCache cache;
    for (int round = 0; round < 2; round++) {  // the second round uses the cache
      Planner planner(device, {}, {&cache});
      for (const ConvolutionShape& s : kShapes) {
        for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
          const ConvolutionPass asked{s, pass, Type::kFloat32};
          INFO(asked.text());
          const Tensors given = {whole_numbers(s.n * s.c * s.h * s.w, 1),
                                 whole_numbers(s.op.filters * s.c * s.op.kernel_h * s.op.kernel_w, 2),
                                 whole_numbers(s.n * s.op.filters * s.p() * s.q(), 3), whole_numbers(s.op.filters, 4)};
          const Tensors computed = run(handle, test::must(planner.plan(asked)), asked, given);
          const Tensors right = expected(s, pass, given);
          CHECK(computed.x == right.x);
          CHECK(computed.w == right.w);
          CHECK(computed.y == right.y);
        }
      }
      CHECK((round == 0 || planner.chosen() == 0));
    }
  }
  CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("the time of a plan is measured on the device, and the fastest of several plans is right, too", "[cuda]") {
  if (!has_device()) {
    std::cout << "skipped: no CUDA device\n";
    return;
  }
  cudnnHandle_t handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  {
    const ConvolutionShape s = kShapes[0];
    const ConvolutionPass pass{s, Pass::kForward, Type::kFloat32};
    int measured = 0;
    const PlanTiming timing{.prepare = [&](const ConvolutionPass& asked) {
      measured++;
      return measure_on_device(handle, asked);
    }};
    Planner planner(test::must(Device::of(handle)), {}, {}, timing);
    const Plan plan = test::must(planner.plan(pass));
    CHECK(measured == 1);
    const double seconds = test::must(test::must(measure_on_device(handle, pass))(plan));
    CHECK(seconds > 1e-7);
    CHECK(seconds < 1);
    const Tensors given = {whole_numbers(s.n * s.c * s.h * s.w, 1), whole_numbers(s.op.filters * s.c * 9, 2),
                           whole_numbers(s.n * s.op.filters * s.p() * s.q(), 3), whole_numbers(s.op.filters, 4)};
    CHECK(run(handle, plan, pass, given).y == expected(s, Pass::kForward, given).y);
  }
  CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
}

// Checks the plain loops against results computed by hand.
TEST_CASE("the plain loops are a cross-correlation", "[cuda]") {
  const ConvolutionShape s{1, 1, 3, 3, {.filters = 1, .kernel_h = 2, .kernel_w = 2, .bias = false}};
  const Tensors t{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 10, 100, 1000}, {0, 0, 0, 0}, {0}};
  CHECK(expected(s, Pass::kForward, t).y == std::vector<float>{5421, 6532, 8754, 9865});
}

}  // namespace dtrain::cuda
