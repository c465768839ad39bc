#include "cuda/dnn/planner.h"

#include <fmt/core.h>

#include <chrono>

namespace dtrain::cuda {

double PlanTiming::seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<Plan> Planner::plan(const ConvolutionPass& pass) {
  const std::string key = fmt::format("{} | {} | {}", device_.identity(), options_.key(), pass.text());
  if (std::optional<Plan> plan = stored(key)) return std::move(*plan);
  DT_TRY(TimedPlan chosen, choose(pass), "choosing cuDNN's engine for {}", pass.text());
  chosen_++;
  if (files_.is_resumed && !has_warned_of_bits_) {
    has_warned_of_bits_ = true;
    log_.warn(
        "the run directory has no plan for {} on {}, so a new one is chosen; the results may differ in the last "
        "bits from those of an uninterrupted run",
        pass.text(), device_.identity());
  }
  store(key, chosen);
  return std::move(chosen.plan);
}

// A stored plan that cuDNN rejects is not an error: it only costs the time to choose another plan.
std::optional<Plan> Planner::stored(const std::string& key) {
  for (const PlanCache* file : {files_.run, files_.cache}) {
    const StoredPlan* found = file == nullptr ? nullptr : file->find(key);
    if (found == nullptr) continue;
    Result<Plan> plan = load_plan(device_, found->text);
    if (!plan) continue;
    from_cache_++;
    if (file != files_.run && files_.run != nullptr) files_.run->put(key, *found);
    return std::move(*plan);
  }
  return std::nullopt;
}

Result<TimedPlan> Planner::choose(const ConvolutionPass& pass) {
  const Descriptor graph = operations_of(pass).finish(device_);
  if (!measures()) return first_choice(pass, graph);
  if (is_time_up()) {
    warn_once(
        fmt::format("choosing cuDNN's engines by their speed has taken {} s, so the remaining convolutions use the "
                    "engine that cuDNN suggests; the next start measures them",
                    timing_.seconds_max));
    return first_choice(pass, graph);
  }
  const Result<Measure> measure = timing_.prepare(pass);
  if (!measure) {
    warn_once(fmt::format("cannot measure cuDNN's engines for {}, so the one that cuDNN suggests is used: {}",
                          pass.text(), measure.error().message));
    return first_choice(pass, graph);
  }
  measured_++;
  return choose_fastest_plan(device_, graph, cudnn_type(pass.type), options_, *measure, [&] { return is_time_up(); });
}

Result<TimedPlan> Planner::first_choice(const ConvolutionPass& pass, const Descriptor& graph) {
  DT_TRY(Plan plan, choose_plan(device_, graph, cudnn_type(pass.type), options_));
  return TimedPlan{std::move(plan)};
}

// A plan that was not measured although others are is not kept in the user's cache, so the next run measures it.
void Planner::store(const std::string& key, const TimedPlan& chosen) {
  StoredPlan plan{chosen.plan.json()};
  if (chosen.seconds) plan.milliseconds = *chosen.seconds * 1e3;
  if (files_.run != nullptr) files_.run->put(key, plan);
  if (files_.cache != nullptr && (chosen.seconds || !measures())) files_.cache->put(key, std::move(plan));
}

bool Planner::is_time_up() {
  if (!began_) began_ = timing_.now();
  return timing_.now() - *began_ >= timing_.seconds_max;
}

void Planner::warn_once(const std::string& text) {
  if (!has_warned_) log_.warn("{}", text);
  has_warned_ = true;
}

void Planner::graph_done() {
  if (measured_ > 0) {
    log_.info("measured cuDNN's engines for {} convolution passes in {:.1f} s", measured_, timing_.now() - *began_);
  }
  began_.reset();
  measured_ = 0;
  has_warned_ = false;
}

}  // namespace dtrain::cuda
