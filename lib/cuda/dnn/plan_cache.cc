#include "cuda/dnn/plan_cache.h"

#include <fmt/core.h>

#include <filesystem>
#include <span>
#include <system_error>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"

namespace dtrain::cuda {

namespace {

constexpr std::string_view kFormat = "dtrain cuDNN plans 2", kAnyFormat = "dtrain cuDNN plans ";

nlohmann::ordered_json json_of(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

// The checksum of a stored plan, which is verified before cuDNN gets the plan: cuDNN accepts a plan with a wrong digit
// and then computes something else.
std::string checksum(const std::string& key, const StoredPlan& plan) {
  uint32_t sum = 0;
  for (const std::string& part : {key, plan.text, json_of(plan.milliseconds).dump()}) {
    sum = crc32c(std::as_bytes(std::span(part)), sum);
  }
  return fmt::format("{:08x}", sum);
}

// Reads [checksum, plan, milliseconds or null]. Returns nullopt if the entry is damaged.
std::optional<StoredPlan> plan_of(const std::string& key, const nlohmann::json& entry) {
  const bool is_entry = entry.is_array() && entry.size() == 3 && entry[0].is_string() && entry[1].is_string() &&
                        (entry[2].is_null() || entry[2].is_number());
  if (!is_entry) return std::nullopt;
  StoredPlan plan{entry[1].get<std::string>()};
  if (!entry[2].is_null()) plan.milliseconds = entry[2].get<double>();
  return entry[0] == checksum(key, plan) ? std::optional(plan) : std::nullopt;
}

Result<> check_format(const std::string& path, const nlohmann::json& file) {
  const nlohmann::json format = file.is_object() ? file.value("format", nlohmann::json()) : nlohmann::json();
  if (format == kFormat) return {};
  if (format.is_string() && format.get<std::string>().starts_with(kAnyFormat)) {
    return fail(Code::kData, "{}: another version of dtrain has written this file", path);
  }
  return fail(Code::kData, "{}: not a file of cuDNN plans", path);
}

}  // namespace

Result<> PlanCache::read() {
  DT_TRY(const std::string text, read_file(path_));
  const nlohmann::json file = parse_json(text);
  DT_TRY_VOID(check_format(path_, file));
  const nlohmann::json plans = file.value("plans", nlohmann::json());
  if (!plans.is_object()) return fail(Code::kData, "{}: the file contains no plans", path_);
  for (const auto& [key, entry] : plans.items()) {
    std::optional<StoredPlan> plan = plan_of(key, entry);
    if (!plan) return fail(Code::kData, "{}: the plan of '{}' is damaged", path_, key);
    plans_[key] = {std::move(*plan)};
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

PlanCache PlanCache::open_of_run(std::string path, const std::string& resumed, const Log& log) {
  std::error_code ignored;
  if (resumed.empty() || std::filesystem::exists(path, ignored)) return open(std::move(path), log);
  PlanCache cache = open(resumed, log);
  cache.path_ = std::move(path);
  cache.changed_ = !cache.plans_.empty();
  return cache;
}

const StoredPlan* PlanCache::find(const std::string& key) const {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  found->second.used = true;
  return &found->second.plan;
}

void PlanCache::put(const std::string& key, StoredPlan plan) {
  plans_[key] = {std::move(plan), true};
  changed_ = true;
}

std::string PlanCache::text() const {
  const bool all = plans_.size() <= kPlansMax;
  nlohmann::ordered_json plans = nlohmann::ordered_json::object();
  for (const auto& [key, entry] : plans_) {
    if (!all && !entry.used) continue;
    plans[key] = {checksum(key, entry.plan), entry.plan.text, json_of(entry.plan.milliseconds)};
  }
  const nlohmann::ordered_json file = {{"format", std::string(kFormat)}, {"plans", std::move(plans)}};
  return json_text(file, 1) + "\n";
}

Result<> PlanCache::save() {
  if (!changed_ || path_.empty()) return {};
  DT_TRY_VOID(write_file_atomic(path_, text()), "storing cuDNN's plans");
  changed_ = false;
  return {};
}

}  // namespace dtrain::cuda
