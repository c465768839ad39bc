// What a simulated job learns: softmax regression on pictures, so that "time to a loss" can be compared between
// schemes.
//
// It watches a simulation and does what the machines say with real numbers: a worker's step is the gradient of its own
// batch at the weights that it took, each server holds a part of the weights, sums a group's gradients and applies
// them. So staleness costs here what it costs in a job, though of a convex problem.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kvstore/update_rule.h"
#include "sync/simulator.h"

namespace dtrain::tools {

// Pictures in memory.
struct LearningData {
  std::string name;  // for messages
  int64_t features = 0, classes = 0;
  std::vector<float> pictures;   // [count, features]
  std::vector<uint16_t> labels;  // [count]
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(labels.size()); }
  [[nodiscard]] const float* picture(int64_t i) const { return pictures.data() + i * features; }
};
// The training set in `data_dir`, as training reads it; at most 256 MiB of it. Empty: ten classes of 28 x 28 pixels
// that are drawn, each with a pattern of its own under noise. Errors as data::open_dataset's.
Result<LearningData> learning_data(const std::string& data_dir);

struct LearningSetting {
  int64_t batch_size = 64;     // of a worker's step, drawn with replacement
  double learning_rate = 0.1;  // of an update
  double loss = 0;             // the goal
  uint64_t seed = 1;
};

class LearningModel final : public sync::Observer {
 public:
  // `simulation` says who takes part and in how many parts the weights are. Both outlive the model.
  LearningModel(const LearningData& data, const LearningSetting& setting, const sync::Setting& simulation);

  void on_event(double ms, uint32_t server, const sync::Machine& machine, const sync::Event& event,
                std::span<const sync::Effect> effects) override;
  void on_take(uint32_t server, sync::Worker worker, uint64_t number) override;
  void on_begin(double ms, sync::Worker worker, sync::Step step) override;

  // Mean cross entropy of 1000 pictures of the set, whenever each server has applied as many gradients more as there
  // are workers.
  struct Point {
    double seconds = 0;
    double loss = 0;
  };
  [[nodiscard]] const std::vector<Point>& curve() const { return curve_; }
  // When the loss was at the goal first.
  [[nodiscard]] std::optional<double> reached_s() const;

 private:
  using Weights = std::shared_ptr<const std::vector<float>>;
  struct Sum {
    std::vector<float> values;  // empty: no gradient yet
    uint32_t gradients = 0;
  };
  struct Server {
    size_t first = 0;      // its part of the weights
    uint64_t applied = 0;  // gradients
    std::shared_ptr<std::vector<float>> weights;
    std::vector<Sum> sums;                                        // by group
    std::vector<Weights> kept;                                    // by group
    std::vector<std::vector<std::pair<uint64_t, Weights>>> sent;  // by worker: answers that were not taken yet
    std::vector<Weights> taken;                                   // by worker
  };

  void add(Server& server, const sync::Add& add);
  void apply(Server& server, const sync::Apply& apply);
  void measure(double ms);
  // The loss of picture `i` with the weights of scratch_; `error` gets d loss / d logits.
  double loss_of(int64_t i, std::vector<float>& error) const;

  const LearningData& data_;
  const LearningSetting setting_;
  const kvstore::StalenessWeight weight_;  // of an update: GSP's default, or none
  const size_t stride_;                    // weights of a feature: one a class. The last feature is the bias, always 1
  std::vector<Server> servers_;
  std::vector<std::vector<float>> gradients_;  // by worker, of its last step
  std::vector<float> scratch_;                 // all weights
  std::vector<int64_t> measured_;              // pictures
  std::vector<Point> curve_;
  uint64_t answers_ = 0, measure_at_ = 0;
};

}  // namespace dtrain::tools
