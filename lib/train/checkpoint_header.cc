#include "train/checkpoint_header.h"

#include <algorithm>
#include <span>

#include "base/crc32c.h"
#include "base/json.h"
#include "kvstore/counters.h"
#include "train/rest_text.h"

namespace dtrain::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr uint64_t kCountMax = 1'000'000'000'000;  // limit on epochs and steps
constexpr const char* kOwnChecksum = "header_crc32c";

uint32_t checksum(const Json& json) {
  return crc32c(std::as_bytes(std::span<const char>(json_text(json))));
}

Result<const Json*> member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return fail(Code::kData, "the header has no '{}'", key);
  return &*found;
}

tl::unexpected<Error> wrong(const char* key, const char* expected) {
  return fail(Code::kData, "'{}' of the header is not {}", key, expected);
}

Result<uint64_t> whole_number(const Json& object, const char* key) {
  DT_TRY(const Json* value, member(object, key));
  if (!value->is_number_unsigned()) return wrong(key, "a whole number");
  return value->get<uint64_t>();
}

Result<int64_t> counter(const Json& object, const char* key) {
  DT_TRY(const uint64_t value, whole_number(object, key));
  if (value > kCountMax) return wrong(key, "a number in range");
  return static_cast<int64_t>(value);
}

Result<double> real_number(const Json& object, const char* key) {
  DT_TRY(const Json* value, member(object, key));
  if (!value->is_number()) return wrong(key, "a number");
  return value->get<double>();
}

Result<std::string> text(const Json& object, const char* key) {
  DT_TRY(const Json* value, member(object, key));
  if (!value->is_string()) return wrong(key, "a string");
  return value->get<std::string>();
}

Result<optim::OptimizerSpec> parse_optimizer(const Json& header) {
  DT_TRY(const Json* object, member(header, "optimizer"));
  optim::OptimizerSpec spec;
  DT_TRY(spec.name, text(*object, "name"));
  DT_TRY(spec.momentum, real_number(*object, "momentum"));
  DT_TRY(spec.weight_decay, real_number(*object, "wd"));
  DT_TRY(spec.clip_gradient, real_number(*object, "clip_gradient"));
  const auto parameters = object->find("parameters");
  if (parameters == object->end()) return spec;
  if (!parameters->is_object()) return wrong("parameters", "an object");
  for (const auto& [name, value] : parameters->items()) {
    if (!value.is_number()) return wrong("parameters", "an object of numbers");
    spec.parameters[name] = value.get<double>();
  }
  return spec;
}

// Parses "updates", an object {parameter: count}. Returns the largest count.
Result<uint64_t> parse_updates(const Json& header) {
  DT_TRY(const Json* object, member(header, "updates"));
  if (!object->is_object()) return wrong("updates", "an object");
  uint64_t largest = 0;
  for (const auto& [name, count] : object->items()) {
    if (!count.is_number_unsigned()) return wrong("updates", "an object of whole numbers");
    largest = std::max(largest, count.get<uint64_t>());
  }
  return largest;
}

Result<std::vector<std::vector<double>>> parse_metrics(const Json& header) {
  DT_TRY(const Json* ranks, member(header, "metrics"));
  if (!ranks->is_array()) return wrong("metrics", "an array");
  std::vector<std::vector<double>> sums;
  for (const Json& rank : *ranks) {
    if (!rank.is_array() || !std::all_of(rank.begin(), rank.end(), [](const Json& sum) { return sum.is_number(); })) {
      return wrong("metrics", "an array of arrays of numbers");
    }
    sums.push_back(rank.get<std::vector<double>>());
  }
  return sums;
}

// Empty if the key is absent: then all workers have made the same number of steps.
Result<std::vector<uint64_t>> parse_worker_steps(const Json& header) {
  const auto steps = header.find("worker_steps");
  if (steps == header.end()) return std::vector<uint64_t>{};
  const auto is_count = [](const Json& step) { return step.is_number_unsigned(); };
  if (!steps->is_array() || !std::all_of(steps->begin(), steps->end(), is_count)) {
    return wrong("worker_steps", "an array of whole numbers");
  }
  return steps->get<std::vector<uint64_t>>();
}

// Empty if the key is absent: then the loss scale is not dynamic.
Result<std::vector<LossScale::State>> parse_loss_scales(const Json& header) {
  const auto ranks = header.find("loss_scale");
  if (ranks == header.end()) return std::vector<LossScale::State>{};
  if (!ranks->is_array()) return wrong("loss_scale", "an array");
  std::vector<LossScale::State> states;
  for (const Json& rank : *ranks) {
    if (!rank.is_object()) return wrong("loss_scale", "an array of objects");
    LossScale::State state;
    DT_TRY(state.scale, real_number(rank, "scale"), "reading 'loss_scale' of the header");
    DT_TRY(state.good_steps, counter(rank, "good_steps"), "reading 'loss_scale' of the header");
    states.push_back(state);
  }
  return states;
}

Result<std::optional<BestAccuracy>> parse_best(const Json& header) {
  const auto object = header.find("best");
  if (object == header.end()) return std::nullopt;
  if (!object->is_object()) return wrong("best", "an object");
  BestAccuracy best;
  DT_TRY(best.epoch, counter(*object, "epoch"), "reading 'best' of the header");
  DT_TRY(best.accuracy, real_number(*object, "accuracy"), "reading 'best' of the header");
  return best;
}

// Returns 1 if the key is absent: then the run has not changed its learning rate.
Result<double> parse_rate_factor(const Json& header) {
  const auto object = header.find("rate");
  if (object == header.end()) return 1;
  if (!object->is_object()) return wrong("rate", "an object");
  DT_TRY(const double factor, real_number(*object, "factor"), "reading 'rate' of the header");
  if (!kvstore::is_rate_factor(factor)) return wrong("rate", "a factor above 0");
  return factor;
}

Result<std::vector<int64_t>> parse_kept_epochs(const Json& header) {
  const auto epochs = header.find("kept_epochs");
  if (epochs == header.end()) return std::vector<int64_t>{};
  const auto is_epoch = [](const Json& epoch) { return epoch.is_number_unsigned() && epoch <= kCountMax; };
  if (!epochs->is_array() || !std::all_of(epochs->begin(), epochs->end(), is_epoch)) {
    return wrong("kept_epochs", "an array of epoch numbers");
  }
  return epochs->get<std::vector<int64_t>>();
}

// The optimizer as JSON. Parameters with MXNet's defaults are omitted, and so is "parameters" if it would be empty.
Json optimizer_json(const optim::OptimizerSpec& spec) {
  Json object = {{"name", spec.name},
                 {"momentum", spec.momentum},
                 {"wd", spec.weight_decay},
                 {"clip_gradient", spec.clip_gradient}};
  if (!spec.parameters.empty()) object["parameters"] = spec.parameters;
  return object;
}

Json loss_scales_json(const std::vector<LossScale::State>& states) {
  Json ranks = Json::array();
  for (const LossScale::State& state : states) {
    ranks.push_back({{"scale", state.scale}, {"good_steps", state.good_steps}});
  }
  return ranks;
}

}  // namespace

std::string to_json(const CheckpointHeader& header, const std::vector<std::string>& parameters) {
  Json updates = Json::object();
  for (const std::string& parameter : parameters) updates[parameter] = header.position.updates;
  Json json = {
      {"format", kFormat},
      {"job", header.job_hash},
      {"optimizer", optimizer_json(header.optimizer)},
      {"epoch", header.position.epoch},
      {"step", header.position.step},
      {"samples", header.position.samples},
      {"lr", header.learning_rate},
      {"updates", updates},
      {"seed", header.seed},
      {"order", header.position.epoch},
      {"metrics", header.metric_sums},
      {"params_crc32c", header.params_crc},
      {"slots_crc32c", header.slots_crc},
      {"spec", header.job_text},
  };
  if (!header.loss_scales.empty()) json["loss_scale"] = loss_scales_json(header.loss_scales);
  if (!header.worker_steps.empty()) json["worker_steps"] = header.worker_steps;
  if (header.best) json["best"] = {{"epoch", header.best->epoch}, {"accuracy", header.best->accuracy}};
  if (!header.rest.read.empty()) json["rest"] = to_text(header.rest);
  if (header.rate_factor != 1) json["rate"] = {{"factor", header.rate_factor}};
  if (!header.kept_epochs.empty()) json["kept_epochs"] = header.kept_epochs;
  json[kOwnChecksum] = checksum(json);
  return json_text(json);
}

Result<CheckpointHeader> parse_checkpoint_header(std::string_view text_form) {
  Json json = parse_json<Json>(text_form);
  if (!json.is_object()) return fail(Code::kData, "the header is not a JSON object");
  DT_TRY(const uint64_t format, whole_number(json, "format"));
  if (format != kFormat)
    return fail(Code::kData, "the header's format is {}, but this version of dtrain reads {}", format, kFormat);
  DT_TRY(const uint64_t own, whole_number(json, kOwnChecksum));
  json.erase(kOwnChecksum);
  if (own != checksum(json)) return fail(Code::kData, "the header's checksum is wrong");
  CheckpointHeader header;
  DT_TRY(header.job_hash, text(json, "job"));
  DT_TRY(header.job_text, text(json, "spec"));
  DT_TRY(header.optimizer, parse_optimizer(json));
  DT_TRY(header.position.epoch, counter(json, "epoch"));
  DT_TRY(header.position.step, counter(json, "step"));
  DT_TRY(header.position.samples, whole_number(json, "samples"));
  DT_TRY(header.position.updates, parse_updates(json));
  DT_TRY(header.learning_rate, real_number(json, "lr"));
  DT_TRY(header.seed, whole_number(json, "seed"));
  DT_TRY(header.metric_sums, parse_metrics(json));
  DT_TRY(header.loss_scales, parse_loss_scales(json));
  DT_TRY(header.worker_steps, parse_worker_steps(json));
  DT_TRY(header.best, parse_best(json));
  if (json.contains("rest")) {
    DT_TRY(const std::string rest, text(json, "rest"));
    DT_TRY(header.rest, parse_rest(rest), "reading 'rest' of the header");
  }
  DT_TRY(header.rate_factor, parse_rate_factor(json));
  DT_TRY(header.kept_epochs, parse_kept_epochs(json));
  DT_TRY(const uint64_t params_crc, whole_number(json, "params_crc32c"));
  header.params_crc = static_cast<uint32_t>(params_crc);
  DT_TRY(const uint64_t slots_crc, whole_number(json, "slots_crc32c"));
  header.slots_crc = static_cast<uint32_t>(slots_crc);
  return header;
}

}  // namespace dtrain::train
