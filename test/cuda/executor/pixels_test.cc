// Batches of pixels, which the device converts to numbers itself. The results must equal those with numbers bit for
// bit.
#include <algorithm>
#include <cmath>

#include "cases.h"
#include "data/loading/image_dataset.h"
#include "data/loading/loader.h"
#include "data/make_images.h"
#include "data/sources/record_source.h"
#include "emulator.h"
#include "pixels.h"
#include "plain_runner.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::exec;
using dtrain::test::must;

namespace {

graph::Graph small_network() {
  graph::Graph g;
  graph::NodeId x = g.add("data", graph::Input{}, {});
  x = g.add("conv1", graph::Convolution{.filters = 4, .kernel_h = 3, .kernel_w = 3}, {x});
  x = g.add("bn1", graph::BatchNorm{}, {x});
  x = g.add("relu1", graph::Activation{}, {x});
  x = g.add("flatten", graph::Flatten{}, {x});
  x = g.add("fc1", graph::FullyConnected{.outputs = 10}, {x});
  g.add("softmax", graph::SoftmaxOutput{}, {x});
  return g;
}

// 1 and 4 channels are stored unchanged; 3 channels become 4 in float16 and 8 in bfloat16.
void check_forms(Type type) {
  for (const int64_t channels : {1, 3, 4}) {
    const Shape image = {channels, 9, 7};
    for (const bool mean_image : {false, true}) {
      INFO(channels << " channels in " << type_name(type) << ", mean image " << mean_image);
      const Options options{.batch_size = 3, .inputs = {{.shape = image}}, .bucket_begin = {0, 2}, .dtype = type};
      CHECK(exec::test::compare_pixels(*cuda::test::emulated_backend(), small_network(), options, mean_image).empty());
    }
  }
}

// Trains on a data set with plain gradient descent for two epochs and returns the weights.
std::vector<float> trained(const std::shared_ptr<const data::Dataset>& dataset, bool pixels) {
  Options options{.batch_size = 4, .inputs = {{.shape = dataset->image()}}};
  if (pixels) options.inputs[0].normalisation = dataset->normalisation();
  const auto backend = cuda::test::emulated_backend();
  const auto executor = backend->compile(small_network(), options).value();
  const ParameterView& view = executor->parameters();
  fill_parameters(view, exec::test::Values::kFloats, 1);
  data::Loader loader(dataset,
                      {.share = {0, dataset->size()},
                       .batch_size = 4,
                       .labels = {{.name = {}, .classes = 10}},
                       .pixels = pixels,
                       .allocate = backend->batch_memory(),
                       .threads = 2},
                      Log::silent());
  for (int64_t epoch = 0; epoch < 2; epoch++) {
    loader.start(epoch);
    while (const data::LoadedBatch* batch = must(loader.next())) {
      must(executor->forward(*batch, no_wait));
      must(executor->backward(no_wait));
      for (size_t i = 0; i < view.all_weights.size(); i++) view.all_weights[i] -= 0.01F * view.all_gradients[i];
    }
  }
  return {view.all_weights.begin(), view.all_weights.end()};
}

}  // namespace

TEST_CASE("on the device pixels give the same bits as the corresponding floats", "[cuda][exec]") {
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBfloat16}) check_forms(type);
}

TEST_CASE("pixels give the same bits as the corresponding floats, as late as streams may run", "[cuda][exec]") {
  const Options options{
      .batch_size = 2, .inputs = {{.shape = {3, 9, 7}}}, .bucket_begin = {0, 2}, .dtype = Type::kFloat16};
  for (uint64_t seed = 0; seed < 20; seed++) {
    INFO("seed " << seed);
    const cuda::emulator::LateStreams late(seed);
    CHECK(exec::test::compare_pixels(*cuda::test::emulated_backend(), small_network(), options, false).empty());
  }
}

TEST_CASE("with pixels the device gets a quarter of the bytes", "[cuda][exec]") {
  const auto batch = exec::test::make_pixels({3, 28, 28}, 4, 10, false, 1);
  Options options{.batch_size = 4, .inputs = {{.shape = {3, 28, 28}}}};
  const auto copied = [&](const Batch& view) {
    auto executor = cuda::test::emulated_backend()->compile(small_network(), options).value();
    const cuda::emulator::Session session;
    REQUIRE(executor->forward(view, no_wait));
    return session.records().front().bytes;
  };
  CHECK(copied(batch.floats().view()) == 4 * 4 * 3 * 28 * 28);
  options.inputs[0].normalisation = batch.normalisation;
  CHECK(copied(batch.view()) == 4 * 3 * 28 * 28);
}

TEST_CASE("a record file trains to the same weights as pixels and as floats", "[cuda][exec]") {
  const dtrain::test::TempDir dir;
  dtrain::test::write_record_file(dir.path("a.rec"), 10, 30, 31, 3, 10);
  const auto source =
      must(data::open_records({.paths = {dir.path("a.rec")}, .index = "", .channels = 3}, Log::silent()));
  const auto dataset = augmented(source, {.image = {3, 28, 28},
                                          .distortion = {.random_crop = true, .random_mirror = true},
                                          .mean = {123, 117, 104},
                                          .std = {1, 2, 3},
                                          .scale = 1.0F / 256});
  const std::vector<float> numbers = trained(dataset, false);
  CHECK(numbers == trained(dataset, true));
  CHECK(std::ranges::none_of(numbers, [](float weight) { return std::isnan(weight); }));
}
