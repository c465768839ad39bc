#include "cuda/dnn/plan_cache.h"

#include <fmt/core.h>

#include <span>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"

namespace dtrain::cuda {

namespace {

constexpr const char* kFormat = "dtrain cuDNN plans 1";

// The checksum of a stored plan, which is verified before cuDNN gets the plan: cuDNN accepts a plan with a wrong digit
// and then computes something else.
std::string checksum(const std::string& key, const std::string& plan) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(plan)), crc32c(std::as_bytes(std::span(key)))));
}

}  // namespace

Result<> PlanCache::read() {
  DT_TRY(const std::string text, read_file(path_));
  const nlohmann::json file = parse_json(text);
  if (!file.is_object() || file.value("format", nlohmann::json()) != kFormat) {
    return fail(Code::kData, "{}: not a file of cuDNN plans", path_);
  }
  const nlohmann::json plans = file.value("plans", nlohmann::json());
  if (!plans.is_object()) return fail(Code::kData, "{}: the file contains no plans", path_);
  for (const auto& [key, plan] : plans.items()) {
    const bool is_pair = plan.is_array() && plan.size() == 2 && plan[0].is_string() && plan[1].is_string();
    if (!is_pair || plan[0] != checksum(key, plan[1].get<std::string>())) {
      return fail(Code::kData, "{}: the plan of '{}' is damaged", path_, key);
    }
    plans_[key] = {plan[1].get<std::string>()};
  }
  return {};
}

PlanCache PlanCache::open(std::string path, const Log& log) {
  PlanCache cache(std::move(path));
  if (const Result<> read = cache.read(); !read && read.error().code != Code::kNotFound) {
    log.warn("cannot use the cuDNN plans of an earlier run, so new ones are chosen: {}", read.error().message);
    cache.plans_.clear();
  }
  return cache;
}

const std::string* PlanCache::find(const std::string& key) const {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  found->second.used = true;
  return &found->second.plan;
}

void PlanCache::put(const std::string& key, std::string plan) {
  plans_[key] = {std::move(plan), true};
  changed_ = true;
}

std::string PlanCache::text() const {
  const bool all = plans_.size() <= kPlansMax;
  nlohmann::ordered_json plans = nlohmann::ordered_json::object();
  for (const auto& [key, entry] : plans_) {
    if (all || entry.used) plans[key] = {checksum(key, entry.plan), entry.plan};
  }
  const nlohmann::ordered_json file = {{"format", kFormat}, {"plans", std::move(plans)}};
  return json_text(file, 1) + "\n";
}

Result<> PlanCache::save() {
  if (!changed_ || path_.empty()) return {};
  DT_TRY_VOID(write_file_atomic(path_, text()), "storing cuDNN's plans");
  changed_ = false;
  return {};
}

}  // namespace dtrain::cuda
