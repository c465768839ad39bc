// The model that a simulated job trains: softmax regression on images. With it, a simulation can compare how long the
// schemes take to reach a given loss.
//
// The model observes a simulation and really computes what the state machines decide. In a step, a worker computes the
// gradient of a batch of its own at the weights that it received. Each server holds a part of the weights, sums the
// gradients of each group and applies the sums. So staleness slows the training down as in a real job, although only
// for a convex problem.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kvstore/update_rule.h"
#include "plan/simulator.h"

namespace dtrain::plan {

// A set of labeled images in memory.
struct LearningData {
  std::string name;  // name of the data, for messages
  int64_t features = 0, classes = 0;
  std::vector<float> images;     // pixels of the images, as [count, features]
  std::vector<uint16_t> labels;  // label of each image
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(labels.size()); }
  [[nodiscard]] const float* image(int64_t i) const { return images.data() + i * features; }
};
// Returns the training set in `data_dir`, read as for training, but at most 256 MiB of it. If `data_dir` is empty,
// returns synthetic images of 28 x 28 pixels in ten classes: each class has its own pattern, and noise is added.
// Errors: see data::open_dataset.
Result<LearningData> learning_data(const std::string& data_dir);

struct LearningSetting {
  int64_t batch_size = 64;     // number of images in a step of each worker; they are drawn with replacement
  double learning_rate = 0.1;  // learning rate of an update
  double loss = 0;             // the loss that the training should reach
  uint64_t seed = 1;
};

class LearningModel final : public Observer {
 public:
  // `simulation` provides the number of workers, and the number of servers among which the weights are divided. `data`
  // and `simulation` must outlive the model.
  LearningModel(const LearningData& data, const LearningSetting& setting, const Setting& simulation);

  void on_event(double ms, uint32_t server, const sync::Machine& machine, const sync::Event& event,
                std::span<const sync::Effect> effects) override;
  void on_take(uint32_t server, sync::Worker worker, uint64_t number) override;
  void on_begin(double ms, sync::Worker worker, sync::Step step) override;

  // The mean cross-entropy on 1000 images of the set, and when it was measured. It is measured each time every server
  // has applied as many further gradients as there are workers.
  struct Point {
    double seconds = 0;
    double loss = 0;
  };
  [[nodiscard]] const std::vector<Point>& curve() const { return curve_; }
  // The virtual time at which the loss first reached the goal, in seconds.
  [[nodiscard]] std::optional<double> reached_s() const;

 private:
  using Weights = std::shared_ptr<const std::vector<float>>;
  struct Sum {
    std::vector<float> values;  // the sum of the gradients; empty: there is none yet
    uint32_t gradients = 0;
  };
  struct Server {
    size_t first = 0;      // index of the server's first weight among all weights
    uint64_t applied = 0;  // number of gradients applied so far
    std::shared_ptr<std::vector<float>> weights;
    std::vector<Sum> sums;      // the sum of each group's gradients, indexed by group
    std::vector<Weights> kept;  // the weights for the next answers; indexed by group
    // The answers that each worker has not taken yet: the number of the answer, and its weights. Indexed by worker.
    std::vector<std::vector<std::pair<uint64_t, Weights>>> sent;
    std::vector<Weights> taken;  // the weights that each worker took last; indexed by worker
  };

  void add(Server& server, const sync::Add& add);
  void apply(Server& server, const sync::Apply& apply);
  void measure(double ms);
  // Returns the loss of image `i` at the weights in scratch_. Sets `error` to the gradient of the loss with respect to
  // the logits.
  double loss_of(int64_t i, std::vector<float>& error) const;

  const LearningData& data_;
  const LearningSetting setting_;
  // How an update is weighted by its staleness: the default of GSP, or not at all.
  const kvstore::StalenessWeight weight_;
  // Number of weights per feature: one for each class. An additional last feature, always 1, is for the bias.
  const size_t stride_;
  std::vector<Server> servers_;
  std::vector<std::vector<float>> gradients_;  // the gradient of each worker's last step
  std::vector<float> scratch_;                 // the weights of all servers, in one vector
  std::vector<int64_t> measured_;              // the images on which the loss is measured
  std::vector<Point> curve_;
  uint64_t answers_ = 0, measure_at_ = 0;
};

}  // namespace dtrain::plan
