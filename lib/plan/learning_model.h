// The model that a simulated job trains: softmax regression on images, so that the time to a given loss can be compared
// between schemes.
//
// The model observes a simulation and carries out in real arithmetic what the state machines decide. A worker's step is
// the gradient of its own batch at the weights that it received. Each server holds a part of the weights, sums the
// gradients of a group and applies them. So staleness costs here what it costs in a real job, though only for a convex
// problem.
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

// Images in memory.
struct LearningData {
  std::string name;  // for messages
  int64_t features = 0, classes = 0;
  std::vector<float> images;     // [count, features]
  std::vector<uint16_t> labels;  // [count]
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(labels.size()); }
  [[nodiscard]] const float* image(int64_t i) const { return images.data() + i * features; }
};
// The training set in `data_dir`, read as for training, but at most 256 MiB of it. If `data_dir` is empty: synthetic
// images of 28 x 28 pixels in ten classes, each with its own pattern and noise. Errors: see data::open_dataset.
Result<LearningData> learning_data(const std::string& data_dir);

struct LearningSetting {
  int64_t batch_size = 64;     // per worker and step, drawn with replacement
  double learning_rate = 0.1;  // learning rate of an update
  double loss = 0;             // the loss to reach
  uint64_t seed = 1;
};

class LearningModel final : public Observer {
 public:
  // `simulation` gives the workers that take part and the number of servers that share the weights. `data` and
  // `simulation` must outlive the model.
  LearningModel(const LearningData& data, const LearningSetting& setting, const Setting& simulation);

  void on_event(double ms, uint32_t server, const sync::Machine& machine, const sync::Event& event,
                std::span<const sync::Effect> effects) override;
  void on_take(uint32_t server, sync::Worker worker, uint64_t number) override;
  void on_begin(double ms, sync::Worker worker, sync::Step step) override;

  // The mean cross-entropy of 1000 images of the set. It is measured each time every server has applied as many further
  // gradients as there are workers.
  struct Point {
    double seconds = 0;
    double loss = 0;
  };
  [[nodiscard]] const std::vector<Point>& curve() const { return curve_; }
  // The time at which the loss first reached the goal.
  [[nodiscard]] std::optional<double> reached_s() const;

 private:
  using Weights = std::shared_ptr<const std::vector<float>>;
  struct Sum {
    std::vector<float> values;  // empty: no gradient yet
    uint32_t gradients = 0;
  };
  struct Server {
    size_t first = 0;      // index of its first weight
    uint64_t applied = 0;  // number of gradients
    std::shared_ptr<std::vector<float>> weights;
    std::vector<Sum> sums;      // indexed by group
    std::vector<Weights> kept;  // indexed by group
    // Indexed by worker: answers that it has not taken yet.
    std::vector<std::vector<std::pair<uint64_t, Weights>>> sent;
    std::vector<Weights> taken;  // indexed by worker
  };

  void add(Server& server, const sync::Add& add);
  void apply(Server& server, const sync::Apply& apply);
  void measure(double ms);
  // Returns the loss of image `i` with the weights of scratch_. Sets `error` to d loss / d logits.
  double loss_of(int64_t i, std::vector<float>& error) const;

  const LearningData& data_;
  const LearningSetting setting_;
  const kvstore::StalenessWeight weight_;  // weighting of updates: GSP's default, or none
  // Number of weights per feature, one for each class; the last feature is always 1, for the bias.
  const size_t stride_;
  std::vector<Server> servers_;
  std::vector<std::vector<float>> gradients_;  // the gradient of each worker's last step
  std::vector<float> scratch_;                 // all weights
  std::vector<int64_t> measured_;              // the images on which the loss is measured
  std::vector<Point> curve_;
  uint64_t answers_ = 0, measure_at_ = 0;
};

}  // namespace dtrain::plan
