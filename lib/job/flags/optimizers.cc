#include "job/flags/optimizers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/printable.h"
#include "job/flags/flag_table.h"
#include "job/flags/value.h"

namespace dtrain::job {

namespace {

constexpr double kBelowOne = 0.9999999;
// Optimizers divide by a root plus epsilon, which must not be 0.
constexpr double kEpsilonMin = 1e-30, kEpsilonMax = 1;
constexpr double kParameterMax = 1e6;

std::vector<OptimizerKind> all_kinds() {
  const OptimizerParameter beta1{"beta1", 0, kBelowOne}, beta2{"beta2", 0, kBelowOne};
  const OptimizerParameter gamma1{"gamma1", 0, kBelowOne}, gamma2{"gamma2", 0, kBelowOne};
  const OptimizerParameter epsilon{"epsilon", kEpsilonMin, kEpsilonMax};
  return {
      {.name = "sgd", .takes_momentum = true},
      {.name = "ccsgd", .takes_momentum = true},
      {.name = "nag", .takes_momentum = true},
      {.name = "nag@v0.7", .takes_momentum = true},
      {.name = "sgld", .learning_rate = 0.01},
      {.name = "signum", .takes_momentum = true, .learning_rate = 0.01, .parameters = {{"wd_lh", 0, kParameterMax}}},
      {.name = "dcasgd", .takes_momentum = true, .parameters = {{"lamda", 0, kParameterMax}}},
      {.name = "lars",
       .takes_momentum = true,
       .parameters = {{"eta", 0, kParameterMax}, {"eps", 0, kEpsilonMax}, {"momentum_correction", 0, 1}},
       .uses_norms = true},
      {.name = "lbsgd", .takes_momentum = true},
      {.name = "adam", .learning_rate = 0.001, .parameters = {beta1, beta2, epsilon}},
      {.name = "adam@v0.7", .learning_rate = 0.001, .parameters = {beta1, beta2, epsilon}},
      {.name = "adamax", .learning_rate = 0.002, .parameters = {beta1, beta2}},
      {.name = "adagrad", .learning_rate = 0.01, .parameters = {{"eps", kEpsilonMin, kEpsilonMax}}},
      {.name = "rmsprop",
       .learning_rate = 0.001,
       .parameters = {gamma1, gamma2, epsilon, {"clip_weights", 0, kParameterMax}, {"centered", 0, 1}}},
      {.name = "rmsprop@v0.7", .learning_rate = 0.001, .parameters = {gamma1, gamma2, epsilon}},
      {.name = "adadelta", .parameters = {{"rho", 0, kBelowOne}, epsilon}},
      {.name = "ftrl", .learning_rate = 0.1, .parameters = {{"lamda1", 0, kParameterMax}, {"beta", 0, kParameterMax}}},
  };
}

const OptimizerKind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(optimizer_kinds(), name, &OptimizerKind::name);
  return found == optimizer_kinds().end() ? nullptr : &*found;
}

Result<> check_parameter(const OptimizerKind& kind, std::string_view text, std::set<std::string>& seen) {
  const size_t equals = text.find('=');
  const std::string name(text.substr(0, equals));
  const auto parameter = std::ranges::find(kind.parameters, name, &OptimizerParameter::name);
  if (equals == std::string_view::npos || parameter == kind.parameters.end()) {
    std::vector<std::string> known;
    for (const OptimizerParameter& p : kind.parameters) known.push_back(p.name + "=X");
    if (known.empty()) return fail(Code::kUsage, "{} takes no parameters in parentheses", kind.name);
    return fail(Code::kUsage, "'{}' is not a parameter of {}: use {}", printable(text), kind.name,
                fmt::join(known, ", "));
  }
  if (!seen.insert(name).second) return fail(Code::kUsage, "{} is given twice", name);
  double value = 0;
  if (!parse_value(text.substr(equals + 1), value) || !(value >= parameter->min && value <= parameter->max)) {
    return fail(Code::kUsage, "'{}': {} must be a number from {} to {}", printable(text), name, parameter->min,
                parameter->max);
  }
  const bool is_switch = name == "centered" || name == "momentum_correction";
  if (is_switch && value != 0 && value != 1) return fail(Code::kUsage, "{} must be 0 or 1", name);
  return {};
}

}  // namespace

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = all_kinds();
  return kinds;
}

std::vector<std::string> optimizer_kind_names() {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : optimizer_kinds()) names.push_back(kind.name);
  return names;
}

std::string_view optimizer_name(std::string_view text) {
  return text.substr(0, text.find('('));
}

const OptimizerKind& optimizer_kind(std::string_view text) {
  const OptimizerKind* kind = find_kind(optimizer_name(text));
  DT_CHECK(kind != nullptr, "unknown optimizer '{}'", text);
  return *kind;
}

Result<> check_optimizer_text(std::string_view text) {
  const std::string_view name = optimizer_name(text);
  DT_TRY_VOID(check_choice(name, optimizer_kind_names(), {}));
  if (name.size() == text.size()) return {};
  if (!text.ends_with(')')) {
    return fail(Code::kUsage, "'{}' must have the form NAME or NAME(PARAMETER=X,...)", printable(text));
  }
  std::string_view rest = text.substr(name.size() + 1, text.size() - name.size() - 2);
  std::set<std::string> seen;
  if (rest.empty()) return {};
  while (true) {
    const size_t comma = rest.find(',');
    DT_TRY_VOID(check_parameter(optimizer_kind(name), rest.substr(0, comma), seen));
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace dtrain::job
