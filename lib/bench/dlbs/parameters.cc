#include "bench/dlbs/parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "base/json.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "bench/dlbs/expression.h"
#include "job/flags/gpu_list.h"
#include "job/flags/value.h"
#include "job/process/token.h"
#include "role/setup/devices.h"

namespace dtrain::bench {
namespace {

using Json = DlbsParameters::Json;
using Parameter = DlbsParameters::Parameter;
using Type = DlbsParameters::Type;

constexpr size_t kExpandedMax = 1 << 20;  // limit of the size of a value, in bytes
// Limit of the length of a chain of parameters, each of which depends on the next one.
constexpr size_t kReferencesMax = 100;

// DLBS's defaults for the parameters that are used here. A ${name} in a default refers to another parameter.
std::vector<Parameter> defaults() {
  return {
      {"exp.status", "ok", Type::kText},
      {"exp.status_msg", "", Type::kText},
      {"exp.proj", "", Type::kText},
      {"exp.framework", "mxnet", Type::kText},
      {"exp.framework_title", "MXNET", Type::kText},
      {"exp.framework_family", "${exp.framework}", Type::kText},
      {"exp.framework_ver", "", Type::kText},
      {"exp.model", "", Type::kText},
      {"exp.model_title", "", Type::kText},
      {"exp.model_opts", "{}", Type::kAny},
      {"exp.phase", "training", Type::kText},
      {"exp.num_warmup_batches", 1, Type::kInteger},
      {"exp.num_batches", 100, Type::kInteger},
      {"exp.data_dir", "${mxnet.data_dir}", Type::kText},
      {"exp.data", "$('synthetic' if '${exp.data_dir}' == '' else 'real')$", Type::kText},
      {"exp.data_store", "", Type::kText},
      {"exp.dtype", "float32", Type::kText},
      {"exp.replica_batch", 16, Type::kInteger},
      {"exp.gpus", "0", Type::kText},
      {"exp.num_nodes", 1, Type::kInteger},
      {"exp.num_local_gpus", nullptr, Type::kInteger},      // number of GPUs in exp.gpus
      {"exp.num_local_replicas", nullptr, Type::kInteger},  // number of replicas in exp.gpus
      {"exp.num_gpus", "$(${exp.num_local_gpus} * ${exp.num_nodes})$", Type::kInteger},
      {"exp.num_replicas", "$(${exp.num_local_replicas} * ${exp.num_nodes})$", Type::kInteger},
      {"exp.device_type", "$('gpu' if ${exp.num_gpus} > 0 else 'cpu')$", Type::kText},
      {"exp.device_title", "", Type::kText},
      {"exp.effective_batch", "$(${exp.num_replicas} * ${exp.replica_batch})$", Type::kInteger},
      {"exp.id", nullptr, Type::kText},  // a number that is drawn at random for each benchmark
      {"exp.log_file", "${exp.framework}_${exp.device_type}_${exp.model}_${exp.effective_batch}_${exp.id}.log",
       Type::kText},
      {"exp.rerun", "never", Type::kText},
      {"exp.docker", false, Type::kBoolean},
      {"exp.docker_launcher", "docker", Type::kText},
      {"exp.docker_image", "", Type::kText},
      {"exp.docker_args", "--rm --shm-size=1g --ulimit memlock=-1 --ulimit stack=67108864 --ipc=host", Type::kText},
      {"mxnet.data_dir", "", Type::kText},
      {"mxnet.preprocess_threads", 4, Type::kInteger},
      {"mxnet.prefetch_buffer", 10, Type::kInteger},
      {"mxnet.kv_store", "device", Type::kText},
      {"mxnet.rendezvous", "127.0.0.1:4000", Type::kText},
      {"mxnet.scheduler", false, Type::kBoolean},
  };
}

const char* name_of(Type type) {
  switch (type) {
    case Type::kText: return "a string in quotes";
    case Type::kInteger: return "a whole number";
    case Type::kNumber: return "a number";
    case Type::kBoolean: return "true or false";
    case Type::kAny: return "a value";
  }
  return "";
}

Result<Type> type_named(const std::string& name, const std::string& type) {
  if (type == "str" || type == "string") return Type::kText;
  if (type == "int" || type == "integer") return Type::kInteger;
  if (type == "float" || type == "numeric") return Type::kNumber;
  if (type == "bool" || type == "boolean" || type == "binary" || type == "flag") return Type::kBoolean;
  return fail(Code::kUsage, "{}: there is no type \"{}\"; DLBS's types are str, int, float and bool", name, type);
}

// Parses the whole text as a number. Nullopt if it is anything else, including a number with blanks around it.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> truth_in(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  for (const char* yes : {"true", "on", "1", "yes"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "off", "0", "no"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

// Converts a text to a number or boolean if the parameter has such a type: the text may be the value of an expression.
Result<Json> as_type(const std::string& name, Type type, const Json& value) {
  const bool is_text = value.is_string();
  const std::string text = is_text ? value.get<std::string>() : "";
  std::optional<Json> typed;
  switch (type) {
    case Type::kAny: typed = value; break;
    case Type::kText:
      if (is_text || value.is_number()) typed = dlbs_text(value);  // DLBS also accepts a number, as in exp.gpus=0
      break;
    case Type::kInteger:
      if (const auto number = number_in<int64_t>(text)) typed = *number;
      if (value.is_number_integer() && value >= INT64_MIN && value <= INT64_MAX) typed = value.get<int64_t>();
      break;
    case Type::kNumber:
      if (const auto number = number_in<double>(text)) typed = *number;
      if (value.is_number()) typed = value;
      break;
    case Type::kBoolean:
      if (const auto truth = truth_in(text); is_text && truth) typed = *truth;
      if (value.is_boolean()) typed = value;
      break;
  }
  if (typed) return *std::move(typed);
  return fail(Code::kUsage, "{}: the value must be {}, not {}", name, name_of(type), json_text(value));
}

// Replaces a list by a text with its elements separated by blanks, as DLBS does.
Json without_lists(const Json& value) {
  if (!value.is_array()) return value;
  std::vector<std::string> words;
  for (const Json& element : value) words.push_back(dlbs_text(element));
  return fmt::format("{}", fmt::join(words, " "));
}

Parameter* find_in(std::vector<Parameter>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Parameter::name);
  return found == all.end() ? nullptr : &*found;
}

Result<> check_name(std::string_view name) {
  if (!name.empty() && name.find_first_of(" \t\r\n=") == std::string_view::npos && !name.starts_with("__")) return {};
  return fail(Code::kUsage, "'{}' cannot be the name of a parameter", printable(name));
}

void give(std::vector<Parameter>& all, const std::string& name, Json value) {
  Parameter* parameter = find_in(all, name);
  if (parameter == nullptr) parameter = &all.emplace_back(Parameter{name, {}, Type::kAny});
  parameter->value = std::move(value);
  parameter->given = true;
}

// Reads a parameter from the file. The entry is its value, or {"val": VALUE, "type": "int", "desc": "..."}.
Result<> take_from_file(const std::string& name, const Json& entry, std::vector<Parameter>& all) {
  DT_TRY_VOID(check_name(name));
  if (!entry.is_object()) {
    give(all, name, without_lists(entry));
    return {};
  }
  if (!entry.contains("val")) {
    return fail(Code::kUsage, "{}: an object needs \"val\", as in {{\"val\": 16, \"type\": \"int\"}}", name);
  }
  give(all, name, without_lists(entry["val"]));
  if (!entry.contains("type")) return {};
  if (!entry["type"].is_string()) return fail(Code::kUsage, "{}: \"type\" must be a string", name);
  DT_TRY(const Type type, type_named(name, entry["type"].get<std::string>()));
  Parameter* parameter = find_in(all, name);
  if (parameter->type == Type::kAny) parameter->type = type;
  return {};
}

Result<> read_config(const std::string& config, std::vector<Parameter>& all) {
  const Json json = parse_json<Json>(config);
  if (json.is_discarded()) {
    std::string where = "the value is nested too deep";
    if (json_depth(config) <= kJsonDepthMax) {
      try {
        [[maybe_unused]] const Json parsed = Json::parse(config);
      } catch (const Json::parse_error& error) {
        const auto before = static_cast<int64_t>(std::min(error.byte, config.size()));
        where =
            fmt::format("there is an error in line {}", 1 + std::count(config.begin(), config.begin() + before, '\n'));
      }
    }
    return fail(Code::kUsage, "this is not JSON: {}", where);
  }
  if (!json.is_object()) return fail(Code::kUsage, "the file must hold an object, {{\"parameters\": {{...}}}}");
  for (const auto& [key, value] : json.items()) {
    if (key == "parameters") continue;
    const bool expands = key == "variables" || key == "extensions";
    if (expands && value.empty()) continue;
    if (expands) {
      return fail(Code::kUsage,
                  "\"{}\" defines several benchmarks, but this command runs one: run it once for each of them, with -P",
                  key);
    }
    return fail(Code::kUsage, "there is no section \"{}\"; the file has \"parameters\"", printable(key));
  }
  if (!json.contains("parameters")) return fail(Code::kUsage, "the section \"parameters\" is missing");
  if (!json["parameters"].is_object()) return fail(Code::kUsage, "\"parameters\" must be an object");
  for (const auto& [name, entry] : json["parameters"].items()) DT_TRY_VOID(take_from_file(name, entry, all));
  return {};
}

// The number of GPUs in a text such as "0:1,2:3" and the number of replicas, which are separated by commas. Without
// GPUs there is one replica, on the CPU.
std::pair<int64_t, int64_t> gpus_and_replicas(const std::string& gpus) {
  int64_t count = 0, replicas = 0;
  bool in_gpu = false, in_replica = false;
  for (const char c : gpus + ",") {
    const bool separates = c == ',' || c == ':' || c == ' ';
    if (!separates && !std::exchange(in_gpu, true)) count++;
    if (!separates && !std::exchange(in_replica, true)) replicas++;
    if (separates) in_gpu = false;
    if (c == ',' || c == ' ') in_replica = false;
  }
  return {count, std::max<int64_t>(1, replicas)};
}

// Replaces ranges such as 0-3, and "all", by numbers, because other parameters depend on the number of GPUs. Other
// texts are checked later.
Result<std::string> numbered_gpus(const std::string& text) {
  if (text != "all" && text.find('-') == std::string::npos) return text;
  job::GpuList gpus;
  DT_TRY_VOID(job::parse_value(text, gpus), "reading exp.gpus");
  DT_TRY_VOID(role::find_gpus(gpus));
  return job::format_value(gpus.numbers);
}

// Expands each parameter once, after the parameters that it depends on.
class Expander {
 public:
  Expander(std::vector<Parameter>& all, const job::Environment& environment)
      : all_(all), environment_(environment), done_(all.size(), false) {}

  Result<> run() {
    for (Parameter& parameter : all_) DT_TRY_VOID(finish(parameter));
    return {};
  }

 private:
  Result<> finish(Parameter& parameter) {
    const auto index = static_cast<size_t>(&parameter - all_.data());
    if (done_[index]) return {};
    DT_TRY_VOID(check_open(parameter.name));
    open_.push_back(parameter.name);
    DT_TRY_VOID(compute(parameter));
    open_.pop_back();
    done_[index] = true;
    return {};
  }

  Result<> check_open(const std::string& name) const {
    const auto first = std::ranges::find(open_, name);
    if (first != open_.end()) {
      return fail(Code::kUsage, "these parameters refer to each other in a circle: {} -> {}",
                  fmt::join(std::vector<std::string>(first, open_.end()), " -> "), name);
    }
    if (open_.size() < kReferencesMax) return {};
    return fail(Code::kUsage, "{}: the chain of parameters that refer to each other is longer than {}", open_.front(),
                kReferencesMax);
  }

  Result<> compute(Parameter& parameter) {
    if (parameter.value.is_null() && !parameter.given) {
      DT_TRY(parameter.value, derived(parameter.name));
    } else if (parameter.value.is_string()) {
      DT_TRY(std::string expanded, expand(parameter.value.get<std::string>(), parameter.name));
      DT_TRY(parameter.value, evaluated(std::move(expanded), parameter.name));
    }
    DT_TRY(parameter.value, as_type(parameter.name, parameter.type, parameter.value));
    if (parameter.name == "exp.gpus") {
      DT_TRY(parameter.value, numbered_gpus(parameter.value.get<std::string>()));
    }
    return {};
  }

  // Defaults that DLBS computes in Python code.
  Result<Json> derived(const std::string& name) {
    if (name == "exp.id") return job::make_token();
    DT_TRY(const std::string gpus, value_of("exp.gpus", name));
    const auto [count, replicas] = gpus_and_replicas(gpus);
    return name == "exp.num_local_gpus" ? count : replicas;
  }

  // The value of the parameter or environment variable `name`. `user`: the parameter that refers to it.
  Result<std::string> value_of(const std::string& name, const std::string& user) {
    if (Parameter* parameter = find_in(all_, name)) {
      DT_TRY_VOID(finish(*parameter));
      return dlbs_text(parameter->value);
    }
    if (std::optional<std::string> value = environment_(name)) return *std::move(value);
    std::vector<std::string> names;
    for (const Parameter& parameter : all_) names.push_back(parameter.name);
    const std::optional<std::string> near = nearest(name, names);
    return fail(Code::kUsage, "{}: there is neither a parameter nor an environment variable '{}'{}", user,
                printable(name), near ? fmt::format(", did you mean '{}'?", *near) : "");
  }

  // Replaces each ${name} by its value. The result is not expanded a second time.
  Result<std::string> expand(std::string_view text, const std::string& user) {
    std::string result;
    DT_TRY(const size_t end, expand_until(text, 0, false, user, result));
    DT_CHECK(end == text.size(), "{} of {} bytes expanded", end, text.size());
    return result;
  }

  // Appends to `result` the expansion of `text`, from position `at` to its end, or, if `in_name`, to the closing brace.
  // Returns the position at which it stopped.
  Result<size_t> expand_until(std::string_view text, size_t at, bool in_name, const std::string& user,
                              std::string& result, int depth = 0) {
    if (depth > static_cast<int>(kReferencesMax)) return fail(Code::kUsage, "{}: ${{ is nested too deep", user);
    while (at < text.size() && !(in_name && text[at] == '}')) {
      if (!text.substr(at).starts_with("${")) {
        result += text[at++];
        continue;
      }
      std::string name;
      DT_TRY(const size_t end, expand_until(text, at + 2, true, user, name, depth + 1));
      if (end == text.size()) return fail(Code::kUsage, "{}: '{}' lacks a closing brace", user, printable(text));
      DT_TRY(const std::string value, value_of(name, user));
      result += value;
      if (result.size() > kExpandedMax) return fail(Code::kUsage, "{}: the value has more than 1 MiB", user);
      at = end + 1;
    }
    return at;
  }

  // Replaces each $(expression)$ by the value of the expression.
  static Result<std::string> evaluated(std::string text, const std::string& user) {
    size_t at = 0;
    while ((at = text.find("$(", at)) != std::string::npos) {
      const size_t end = text.find(")$", at + 2);
      if (end == std::string::npos) return fail(Code::kUsage, "{}: '{}' lacks )$", user, printable(text));
      Result<std::string> value = evaluate_expression(std::string_view(text).substr(at + 2, end - at - 2));
      if (!value) return fail(Code::kUsage, "{}: {}", user, value.error().message);
      text.replace(at, end + 2 - at, *value);
      at += value->size();
    }
    return text;
  }

  std::vector<Parameter>& all_;
  const job::Environment& environment_;
  std::vector<bool> done_;
  std::vector<std::string> open_;  // parameters that are being expanded now, each of which depends on the next one
};

}  // namespace

Result<DlbsSetting> parse_dlbs_setting(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return fail(Code::kUsage, "'{}': give NAME=VALUE, for example exp.replica_batch=32", printable(text));
  }
  DlbsSetting setting{.name = std::string(text.substr(0, equals)), .value = {}};
  DT_TRY_VOID(check_name(setting.name));
  const std::string_view value = text.substr(equals + 1);
  setting.value = parse_json<Json>(value);
  if (!setting.value.is_discarded()) {
    if (setting.value.is_object())
      return fail(Code::kUsage, "{}: the value is a JSON object; give a string, a number, a boolean or a list",
                  setting.name);
    setting.value = without_lists(setting.value);
    return setting;
  }
  // Anything else is taken as a text without quotes, because shells remove quotes.
  const bool looks_like_json = value.find_first_of("\"[]{}") == 0 || value.ends_with('"');
  if (looks_like_json) return fail(Code::kUsage, "{}: '{}' is not JSON", setting.name, printable(value));
  setting.value = std::string(value);
  return setting;
}

Result<DlbsParameters> DlbsParameters::make(const std::string& config, const std::vector<DlbsSetting>& settings,
                                            const job::Environment& environment) {
  DlbsParameters parameters;
  parameters.all_ = defaults();
  if (!config.empty()) DT_TRY_VOID(read_config(config, parameters.all_));
  for (const DlbsSetting& setting : settings) give(parameters.all_, setting.name, setting.value);
  DT_TRY_VOID(Expander(parameters.all_, environment).run());
  return parameters;
}

const Parameter* DlbsParameters::find(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &Parameter::name);
  return found == all_.end() ? nullptr : &*found;
}

bool DlbsParameters::is_given(std::string_view name) const {
  const Parameter* parameter = find(name);
  return parameter != nullptr && parameter->given;
}

std::string DlbsParameters::text(std::string_view name) const {
  const Parameter* parameter = find(name);
  DT_CHECK(parameter != nullptr, "no parameter '{}'", name);
  return dlbs_text(parameter->value);
}

int64_t DlbsParameters::integer(std::string_view name) const {
  const Parameter* parameter = find(name);
  DT_CHECK(parameter != nullptr && parameter->value.is_number_integer(), "'{}' is not a whole number", name);
  return parameter->value.get<int64_t>();
}

bool DlbsParameters::boolean(std::string_view name) const {
  const Parameter* parameter = find(name);
  DT_CHECK(parameter != nullptr && parameter->value.is_boolean(), "'{}' is not a boolean", name);
  return parameter->value.get<bool>();
}

std::vector<std::string> DlbsParameters::notes() const {
  std::vector<std::string> known, notes;
  for (const Parameter& parameter : defaults()) known.push_back(parameter.name);
  for (const Parameter& parameter : all_) {
    if (std::ranges::find(known, parameter.name) != known.end() || parameter.name == "mxnet.rank") continue;
    const std::optional<std::string> near = nearest(parameter.name, known);
    if (near) {
      notes.push_back(fmt::format("{} has no effect, did you mean {}?", printable(parameter.name), *near));
    }
  }
  return notes;
}

void DlbsParameters::set(std::string_view name, Json value) {
  Parameter* parameter = find_in(all_, name);
  if (parameter == nullptr) parameter = &all_.emplace_back(Parameter{std::string(name), {}, Type::kAny});
  parameter->value = std::move(value);
}

std::string dlbs_text(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  return json_text(value);
}

}  // namespace dtrain::bench
