#include "plan/learning_model.h"

#include <algorithm>
#include <cmath>

#include "base/overloaded.h"
#include "base/random.h"
#include "data/loading/open.h"

namespace dtrain::plan {
namespace {

constexpr int64_t kFloatsMax = int64_t{1} << 26;  // largest number of floats that are kept: 256 MiB of images
constexpr int64_t kMeasured = 1000;               // number of images on which the loss is measured
constexpr kvstore::StalenessWeight kInverse{.rule = kvstore::StalenessWeight::Rule::kPower, .value = 1};
constexpr uint64_t kMeasureStream = ~uint64_t{0};

// Draws the synthetic images: ten patterns of blurred spots, with noise of about the same strength as the spots.
LearningData drawn_data() {
  constexpr int64_t kSize = 28, kClasses = 10, kCount = 4000;
  LearningData data;
  data.name = "drawn images";
  data.features = kSize * kSize;
  data.classes = kClasses;
  std::vector<float> patterns(kClasses * kSize * kSize, 0.0f);
  RandomStream random(0, Use::kSynthetic);
  for (int64_t c = 0; c < kClasses; c++) {
    for (int spot = 0; spot < 6; spot++) {
      const double x0 = random.uniform(4, 24), y0 = random.uniform(4, 24);
      for (int64_t i = 0; i < kSize * kSize; i++) {
        const int64_t row = i / kSize, column = i % kSize;
        const double dx = static_cast<double>(column) - x0, dy = static_cast<double>(row) - y0;
        patterns[c * kSize * kSize + i] += static_cast<float>(0.7 * std::exp(-(dx * dx + dy * dy) / 8));
      }
    }
  }
  for (int64_t n = 0; n < kCount; n++) {
    const auto label = random.below(kClasses);
    data.labels.push_back(static_cast<uint16_t>(label));
    const float* pattern = patterns.data() + label * kSize * kSize;
    for (int64_t i = 0; i < kSize * kSize; i++) {
      data.images.push_back(std::clamp(pattern[i] + static_cast<float>(0.5 * random.normal()), 0.0f, 1.0f));
    }
  }
  return data;
}

// If a value is above 1, divides all values by the largest one, so that one learning rate suits all data sets.
void scale_to_one(std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  if (largest <= 1) return;
  for (float& value : values) value /= largest;
}

}  // namespace

Result<LearningData> learning_data(const std::string& data_dir) {
  if (data_dir.empty()) return drawn_data();
  data::DataOptions options;
  options.data_dir = data_dir;
  DT_TRY(const data::DataSets sets, data::open_dataset(options, Log::to_stderr("simulate")));
  const int64_t features = element_count(sets.train->image());
  LearningData data;
  data.name = data_dir;
  data.features = features;
  data.classes = sets.classes;
  if (sets.classes < 2 || sets.classes > 1000)
    return fail(Code::kUsage, "{}: the data set must have from 2 to 1000 classes, not {}", data_dir, sets.classes);
  const int64_t count = std::min(sets.train->size(), kFloatsMax / features);
  data.images.resize(static_cast<size_t>(count * features));
  for (int64_t i = 0; i < count; i++) {
    RandomStream random(0, Use::kAugment, 0, static_cast<uint64_t>(i));
    const std::span<float> out(data.images.data() + i * features, static_cast<size_t>(features));
    float label = 0;
    DT_TRY_VOID(sets.train->load(i, random, out, {&label, 1}));
    if (!(label >= 0 && label < static_cast<float>(data.classes))) {
      return fail(Code::kData, "{}: label {} is not one of the {} classes", sets.train->describe(i), label,
                  data.classes);
    }
    data.labels.push_back(static_cast<uint16_t>(label));
  }
  scale_to_one(data.images);
  return data;
}

LearningModel::LearningModel(const LearningData& data, const LearningSetting& setting, const Setting& simulation)
    : data_(data),
      setting_(setting),
      weight_(simulation.policy.snapshots ? kInverse : kvstore::StalenessWeight{}),
      stride_(static_cast<size_t>(data.classes)),
      gradients_(simulation.policy.group_of.size()),
      scratch_(stride_ * static_cast<size_t>(data.features + 1), 0.0f) {
  const size_t workers = gradients_.size(), groups = sync::group_count(simulation.policy);
  servers_.resize(simulation.servers);
  for (size_t s = 0; s < servers_.size(); s++) {
    Server& server = servers_[s];
    server.first = scratch_.size() * s / servers_.size();
    const size_t end = scratch_.size() * (s + 1) / servers_.size();
    server.weights = std::make_shared<std::vector<float>>(end - server.first, 0.0f);
    server.sums.resize(groups);
    server.kept.assign(groups, server.weights);
    server.sent.resize(workers);
    server.taken.assign(workers, server.weights);
  }
  RandomStream random(setting.seed, Use::kSimulation, kMeasureStream);
  for (int64_t i = 0; i < kMeasured; i++) measured_.push_back(random.below(data.count()));
  measure(0);
}

void LearningModel::on_event(double ms, uint32_t index, const sync::Machine& /*machine*/, const sync::Event& /*event*/,
                             std::span<const sync::Effect> effects) {
  Server& server = servers_[index];
  for (const sync::Effect& effect : effects) {
    std::visit(Overloaded{[&](const sync::Add& add) { this->add(server, add); },
                          [&](const sync::Apply& apply) { this->apply(server, apply); },
                          [&](const sync::Keep& keep) { server.kept[keep.group] = server.weights; },
                          [&](const sync::Answer& answer) {
                            server.sent[answer.worker].emplace_back(answers_++, server.kept[answer.group]);
                          },
                          [](const auto&) {}},
               effect);
  }
  if (server.applied < measure_at_) return;
  const auto is_behind = [&](const Server& other) { return other.applied < measure_at_; };
  if (std::none_of(servers_.begin(), servers_.end(), is_behind)) measure(ms);
}

void LearningModel::on_take(uint32_t server, sync::Worker worker, uint64_t number) {
  auto& sent = servers_[server].sent[worker];
  const auto answer = std::find_if(sent.begin(), sent.end(), [&](const auto& s) { return s.first == number; });
  DT_CHECK(answer != sent.end(), "the simulator delivered answer {}, which was not sent, to worker {}", number, worker);
  servers_[server].taken[worker] = answer->second;
  sent.erase(sent.begin(), answer + 1);  // the answers before it were lost, or will arrive too late to be used
}

void LearningModel::on_begin(double /*ms*/, sync::Worker worker, sync::Step step) {
  for (const Server& server : servers_) {
    const std::vector<float>& part = *server.taken[worker];
    std::copy(part.begin(), part.end(), scratch_.begin() + static_cast<int64_t>(server.first));
  }
  std::vector<float>& gradient = gradients_[worker];
  gradient.assign(scratch_.size(), 0.0f);
  std::vector<float> error(stride_);
  RandomStream random(setting_.seed, Use::kShuffle, worker, step);
  for (int64_t b = 0; b < setting_.batch_size; b++) {
    const int64_t i = random.below(data_.count());
    loss_of(i, error);
    for (float& e : error) e /= static_cast<float>(setting_.batch_size);
    const float* x = data_.image(i);
    for (int64_t f = 0; f <= data_.features; f++) {
      const float value = f < data_.features ? x[f] : 1.0f;
      if (value == 0) continue;  // for speed: most pixels of a handwritten digit are 0
      float* row = gradient.data() + static_cast<size_t>(f) * stride_;
      for (size_t c = 0; c < stride_; c++) row[c] += value * error[c];
    }
  }
}

double LearningModel::loss_of(int64_t i, std::vector<float>& error) const {
  const float* x = data_.image(i);
  std::copy_n(scratch_.end() - static_cast<int64_t>(stride_), stride_, error.begin());
  for (int64_t f = 0; f < data_.features; f++) {
    if (x[f] == 0) continue;
    const float* row = scratch_.data() + static_cast<size_t>(f) * stride_;
    for (size_t c = 0; c < stride_; c++) error[c] += x[f] * row[c];
  }
  const size_t label = data_.labels[static_cast<size_t>(i)];
  const float of_label = error[label];
  const float largest = *std::max_element(error.begin(), error.end());
  float sum = 0;
  for (float& e : error) sum += e = std::exp(e - largest);
  for (float& e : error) e /= sum;
  error[label] -= 1;
  return std::log(static_cast<double>(sum)) + largest - of_label;
}

void LearningModel::add(Server& server, const sync::Add& add) {
  Sum& sum = server.sums[add.group];
  if (sum.gradients++ == 0) sum.values.assign(server.weights->size(), 0.0f);
  const float* gradient = gradients_[add.worker].data() + server.first;
  for (size_t i = 0; i < sum.values.size(); i++) sum.values[i] += gradient[i];
}

void LearningModel::apply(Server& server, const sync::Apply& apply) {
  const Sum sum = std::exchange(server.sums[apply.group], {});
  server.applied += sum.gradients;
  const double weight = kvstore::weight_of(weight_, apply.staleness);
  const auto scale = static_cast<float>(setting_.learning_rate * weight / sum.gradients);
  // Workers that received the old weights may still read them, so the update is applied to a copy.
  if (server.weights.use_count() > 1) server.weights = std::make_shared<std::vector<float>>(*server.weights);
  for (size_t i = 0; i < sum.values.size(); i++) (*server.weights)[i] -= scale * sum.values[i];
}

void LearningModel::measure(double ms) {
  measure_at_ += gradients_.size();
  for (const Server& server : servers_) {
    std::copy(server.weights->begin(), server.weights->end(), scratch_.begin() + static_cast<int64_t>(server.first));
  }
  std::vector<float> error(stride_);
  double sum = 0;
  for (const int64_t i : measured_) sum += loss_of(i, error);
  curve_.push_back({ms / 1000, sum / static_cast<double>(measured_.size())});
}

std::optional<double> LearningModel::reached_s() const {
  for (const Point& point : curve_) {
    if (point.loss <= setting_.loss) return point.seconds;
  }
  return std::nullopt;
}

}  // namespace dtrain::plan
