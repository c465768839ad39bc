#include "lesson.h"

#include <algorithm>

#include "base/random.h"
#include "graph/models/models.h"

namespace dtrain::gpu {

namespace {

constexpr int64_t kLessonClasses = 10;

// A batch in the host's memory.
class Slate {
 public:
  Slate(const Lesson& lesson, const LabeledImages& images)
      : lesson_(lesson),
        images_(images),
        elements_(static_cast<size_t>(images.shape[0] * lesson.height * lesson.width)),
        data_(static_cast<size_t>(lesson.batch) * elements_),
        labels_(static_cast<size_t>(lesson.batch)) {}

  exec::Batch fill(std::span<const int64_t> indices) {
    for (size_t i = 0; i < labels_.size(); i++) {
      images_.read(indices[i], lesson_.height, lesson_.width, lesson_.mean, lesson_.scale, &data_[i * elements_]);
      labels_[i] = images_.labels[static_cast<size_t>(indices[i])];
    }
    return exec::Batch::of(data_, labels_);
  }

  // How many images of the batch have the largest probability at their label.
  [[nodiscard]] int64_t right(std::span<const float> probabilities) const {
    int64_t count = 0;
    for (size_t i = 0; i < labels_.size(); i++) {
      const auto row = probabilities.subspan(i * kLessonClasses, kLessonClasses);
      const auto best = static_cast<float>(std::ranges::max_element(row) - row.begin());
      count += best == labels_[i] ? 1 : 0;
    }
    return count;
  }

 private:
  const Lesson& lesson_;
  const LabeledImages& images_;
  size_t elements_;
  std::vector<float> data_, labels_;
};

// The share of right answers over the batches of an epoch. Calls `work` for each batch.
template <class Work>
Result<double> epoch(const Lesson& lesson, const LabeledImages& images, uint64_t number, Slate& slate, Work&& work) {
  RandomStream random(1, Use::kShuffle, number);
  const std::vector<int64_t> order = permutation(images.count(), random);
  const int64_t batches = images.count() / lesson.batch;
  int64_t right = 0;
  for (int64_t b = 0; b < batches; b++) {
    const exec::Batch batch = slate.fill(std::span(order).subspan(static_cast<size_t>(b * lesson.batch)));
    DT_TRY(const std::span<const float> probabilities, work(batch));
    right += slate.right(probabilities);
  }
  return static_cast<double>(right) / static_cast<double>(batches * lesson.batch);
}

}  // namespace

Result<Progress> learn(exec::Backend& backend, const Lesson& lesson, const LabeledImages& images,
                       exec::Options options) {
  options.batch_size = lesson.batch;
  options.inputs = {{.shape = {images.shape[0], lesson.height, lesson.width}}};
  DT_TRY(
      const graph::Graph graph,
      graph::build_model({.network = lesson.network, .num_classes = kLessonClasses, .image = options.inputs[0].shape}));
  DT_TRY(const auto learner,
         Learner::create(backend, {.graph = graph, .options = options, .optimizer = lesson.optimizer}));
  Slate slate(lesson, images);
  using Answers = Result<std::span<const float>>;
  Progress progress;
  for (int e = 0; e < lesson.epochs; e++) {
    DT_TRY(const double accuracy,
           epoch(lesson, images, static_cast<uint64_t>(e), slate, [&](const auto& batch) -> Answers {
             DT_TRY_VOID(learner->stage(batch));
             DT_TRY_VOID(learner->step(lesson.rate));
             return learner->executor().result(0);
           }));
    progress.training_accuracy.push_back(accuracy);
  }
  options.purpose = exec::Options::Purpose::kInference;
  options.parameters_on_device = true;  // they are the learner's
  DT_TRY(const auto inference, backend.compile(graph, options, &learner->executor()));
  DT_TRY(progress.inference_accuracy, epoch(lesson, images, 0, slate, [&](const auto& batch) -> Answers {
           DT_TRY_VOID(inference->forward(batch, exec::no_wait));
           return inference->result(0);
         }));
  return progress;
}

// The same lessons on a CPU (oneDNN, float32; same batches, rates and seed) reach these accuracies by epoch:
//   mnist    0.888 0.971 0.984 0.993; by inference 0.996
//   cifar10  0.320 0.468 0.523 0.597 0.647 0.695 0.736 0.782 0.837 0.881; by inference 0.774
// The required accuracies leave room for another order of rounding: about one epoch's progress, and more for inference,
// whose moving statistics still follow quickly changing weights.
Lesson mnist_lesson() {
  return {.network = "lenet",
          .batch = 64,
          .epochs = 4,
          .rate = 0.05,
          .scale = 1.0F / 255,
          .training_accuracy = 0.985,
          .inference_accuracy = 0.985};
}

Lesson cifar_lesson() {
  return {.network = "inception-bn-28-small",
          .batch = 125,
          .epochs = 10,
          .rate = 0.05,
          .mean = 127.5F,
          .scale = 1.0F / 64,
          .training_accuracy = 0.80,
          .inference_accuracy = 0.60};
}

}  // namespace dtrain::gpu
