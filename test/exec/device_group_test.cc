#include "exec/device_group.h"

#include <algorithm>
#include <memory>
#include <set>

#include "cases.h"
#include "pixels.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::Case;
using exec::test::Values;

namespace {

graph::Graph small_network() {
  graph::Graph g;
  graph::NodeId x = g.add("data", graph::Input{}, {});
  x = g.add("conv1", graph::Convolution{.filters = 4, .kernel_h = 3, .kernel_w = 3}, {x});
  x = g.add("relu1", graph::Activation{}, {x});
  x = g.add("flatten", graph::Flatten{}, {x});
  x = g.add("fc1", graph::FullyConnected{.outputs = 3}, {x});
  g.add("softmax", graph::SoftmaxOutput{}, {x});
  return g;
}

constexpr int64_t kBatch = 7;
const Shape kImage = {1, 6, 6};

std::unique_ptr<DeviceGroup> group_of(const std::vector<int64_t>& batches,
                                      const std::shared_ptr<const Normalisation>& normalisation = nullptr) {
  const auto backend = make_reference_backend();
  std::vector<std::unique_ptr<Executor>> executors;
  for (const int64_t batch : batches) {
    executors.push_back(
        backend
            ->compile(small_network(),
                      {.batch_size = batch, .inputs = {{kImage, normalisation}}, .bucket_begin = {0, 2}})
            .value());
    fill_parameters(executors.back()->parameters(), Values::kFloats, 1);
  }
  return std::make_unique<DeviceGroup>(std::move(executors), batches);
}

struct Images {
  std::vector<float> data = std::vector<float>(kBatch * 36);
  std::vector<float> labels = {0, 1, 2, 0, 1, 2, 0};
  Images() {
    for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<float>(i % 11) - 5;
  }
  [[nodiscard]] Batch view() const { return Batch::of(data, labels); }
};

Result<> no_call(size_t, size_t) {
  return {};
}

}  // namespace

// Expected shares computed by hand.
TEST_CASE("a batch is split by the weights of the devices", "[exec]") {
  using Shares = std::vector<int64_t>;
  const auto split = [](int64_t batch, std::vector<double> weights) { return split_batch(batch, weights).value(); };
  CHECK(split(45, {1, 1}) == Shares{23, 22});
  CHECK(split(128, {1, 1, 1}) == Shares{43, 43, 42});
  CHECK(split(10, {3, 1}) == Shares{8, 2});
  CHECK(split(10, {1, 1, 1, 1}) == Shares{3, 3, 3, 1});
  CHECK(split(5, {0.2}) == Shares{5});
  for (const auto& weights : {std::vector<double>{1, 1, 1}, std::vector<double>{100, 1}}) {
    const auto none = split_batch(2, weights);
    REQUIRE_FALSE(none);
    CHECK(none.error().code == Code::kUsage);
    CHECK_THAT(none.error().message, Catch::Contains("batch of 2"));
  }
}

TEST_CASE("several devices compute the same as one device", "[exec]") {
  const Images images;
  const auto one = group_of({kBatch}), three = group_of({3, 2, 2});
  for (DeviceGroup* group : {one.get(), three.get()}) {
    REQUIRE(group->forward(images.view(), no_call));
    REQUIRE(group->backward(no_call));
  }
  const std::span<const float> expected = one->result(0), actual = three->result(0);
  REQUIRE(actual.size() == expected.size());
  CHECK(std::equal(actual.begin(), actual.end(), expected.begin()));
  for (size_t p = 0; p < one->parameters().parameters.size(); p++) {
    const std::span<const float> whole = one->parameters().parameters[p].gradient;
    for (size_t i = 0; i < whole.size(); i++) {
      float sum = 0;
      for (size_t d = 0; d < 3; d++) sum += three->parameters(d).parameters[p].gradient[i];
      CHECK(sum == Approx(whole[i]).margin(1e-4));
    }
  }
}

TEST_CASE("pixels and their mirror flags are split among devices like floats", "[exec]") {
  const test::PixelBatch batch = test::make_pixels(kImage, kBatch, 3, true, 1);
  const auto floats = group_of({3, 2, 2}), pixels = group_of({3, 2, 2}, batch.normalisation);
  REQUIRE(floats->forward(batch.floats().view(), no_call));
  REQUIRE(pixels->forward(batch.view(), no_call));
  CHECK(std::ranges::equal(floats->result(0), pixels->result(0)));
  for (DeviceGroup* group : {floats.get(), pixels.get()}) REQUIRE(group->backward(no_call));
  for (size_t d = 0; d < 3; d++) {
    CHECK(std::ranges::equal(floats->parameters(d).all_gradients, pixels->parameters(d).all_gradients));
  }
}

TEST_CASE("each device waits for its weights and announces its gradients", "[exec]") {
  const Images images;
  const auto group = group_of({3, 4});
  std::mutex mutex;
  std::multiset<std::pair<size_t, size_t>> calls;
  const auto note = [&](size_t device, size_t bucket) -> Result<> {
    const std::lock_guard lock(mutex);
    calls.emplace(device, bucket);
    return {};
  };
  const std::multiset<std::pair<size_t, size_t>> each_once = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  REQUIRE(group->forward(images.view(), note));
  CHECK(calls == each_once);
  calls.clear();
  REQUIRE(group->backward(note));
  CHECK(calls == each_once);
}

TEST_CASE("the error of one device is the error of the group", "[exec]") {
  const Images images;
  const auto group = group_of({3, 4});
  const auto refuse = [](size_t device, size_t) -> Result<> {
    if (device == 0) return {};
    return fail(Code::kPeerLost, "server 1 is lost");
  };
  CHECK(group->forward(images.view(), refuse).error().message == "server 1 is lost");
  REQUIRE(group->forward(images.view(), no_call));
  CHECK(group->backward(refuse).error().code == Code::kPeerLost);
}
