#include "pixels.h"

#include <cstring>
#include <memory>

#include "base/random.h"
#include "exec/contract.h"

namespace dtrain::exec::test {

HostBatch PixelBatch::floats() const {
  HostBatch batch{std::vector<float>(pixels.size()), labels, keys};
  normalisation->apply(pixels, mirrored, batch.data);
  return batch;
}

PixelBatch make_pixels(const Shape& image, int64_t batch, int64_t classes, bool mean_image, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 3);
  std::vector<float> mean, factor, means;
  for (int64_t k = 0; k < image[0]; k++) {
    mean.push_back(123.68f - 7.1f * static_cast<float>(k));
    factor.push_back(1 / (58.393f + static_cast<float>(k)));
  }
  for (int64_t i = 0; i < element_count(image); i++) means.push_back(100 + static_cast<float>(i % 31) / 3);
  PixelBatch made{std::make_shared<const Normalisation>(
      image, mean, factor, mean_image ? std::make_shared<const std::vector<float>>(means) : nullptr)};
  made.keys = make_keys(batch, seed);
  for (int64_t n = 0; n < batch; n++) {
    for (int64_t i = 0; i < element_count(image); i++) made.pixels.push_back(static_cast<uint8_t>(random.below(256)));
    made.mirrored.push_back(static_cast<uint8_t>(n % 2));
    made.labels.push_back(static_cast<float>(random.below(classes)));
  }
  return made;
}

namespace {

bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size() || a.empty()) return a.size() == b.size();  // empty spans have no address to pass to memcmp
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::string first_difference(Executor& a, Executor& b) {
  for (size_t head = 0; head < a.heads(); head++) {
    if (!same_bits(a.result(head), b.result(head))) return "probabilities";
  }
  const ParameterView &left = a.parameters(), &right = b.parameters();
  for (size_t p = 0; p < left.parameters.size(); p++) {
    if (!same_bits(left.parameters[p].gradient, right.parameters[p].gradient)) return left.parameters[p].name;
  }
  for (size_t s = 0; s < left.statistics.size(); s++) {
    if (!same_bits(left.statistics[s].weight, right.statistics[s].weight)) return left.statistics[s].name;
  }
  return "";
}

Result<> step(Executor& executor, const Batch& batch, bool training) {
  DT_TRY_VOID(executor.forward(batch, no_wait));
  return training ? executor.backward(no_wait) : Result<>{};
}

}  // namespace

std::string compare_pixels(Backend& backend, const graph::Graph& graph, const Options& options, bool mean_image) {
  Options of_pixels = options;
  const int64_t classes = graph::infer_shapes(graph, options.inputs[0].shape)->heads[0].outputs;
  const auto draw = [&](uint64_t seed) {
    return make_pixels(options.inputs[0].shape, options.batch_size, classes, mean_image, seed);
  };
  of_pixels.inputs[0].normalisation = draw(0).normalisation;
  const auto a = backend.compile(graph, options).value(), b = backend.compile(graph, of_pixels).value();
  for (Executor* executor : {a.get(), b.get()}) fill_parameters(executor->parameters(), Values::kFloats, 1);
  Options inference = options, inference_of_pixels = of_pixels;
  inference.purpose = inference_of_pixels.purpose = Options::Purpose::kInference;
  const auto c = backend.compile(graph, inference, a.get()).value();
  const auto d = backend.compile(graph, inference_of_pixels, b.get()).value();
  for (const uint64_t seed : {1, 2, 3}) {
    const PixelBatch batch = draw(seed);
    for (const auto& [of_floats, tested] : {std::pair(a.get(), b.get()), std::pair(c.get(), d.get())}) {
      const bool training = of_floats == a.get();
      if (!step(*of_floats, batch.floats().view(), training) || !step(*tested, batch.view(), training)) {
        return "a step fails";
      }
      const std::string difference = first_difference(*of_floats, *tested);
      if (!difference.empty()) return fmt::format("batch {}, training {}: {}", seed, training, difference);
    }
  }
  return "";
}

}  // namespace dtrain::exec::test
