#include "graph/symbol/initializer_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/json.h"
#include "base/printable.h"

namespace dtrain::graph {

namespace {

using Json = nlohmann::json;
using Kind = InitializerSpec::Kind;
constexpr std::array<std::string_view, 3> kFactors = {"avg", "in", "out"};

std::optional<double> number(const Json& arguments, const char* key, double fallback) {
  const auto found = arguments.find(key);
  if (found == arguments.end()) return fallback;
  if (!found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<std::string> word(const Json& arguments, const char* key, const char* fallback) {
  const auto found = arguments.find(key);
  if (found == arguments.end()) return fallback;
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<InitializerSpec> with_value(Kind kind, std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return InitializerSpec{.kind = kind, .magnitude = *value};
}

std::optional<InitializerSpec> xavier(const Json& arguments) {
  const std::optional<std::string> type = word(arguments, "rnd_type", "uniform");
  const std::optional<std::string> factor = word(arguments, "factor_type", "avg");
  std::optional<InitializerSpec> spec = with_value(Kind::kXavier, number(arguments, "magnitude", 3));
  if (!spec || !type || !factor || (*type != "uniform" && *type != "gaussian")) return std::nullopt;
  const auto* const found = std::ranges::find(kFactors, std::string_view(*factor));
  if (found == kFactors.end()) return std::nullopt;
  spec->gaussian = *type == "gaussian";
  spec->factor = static_cast<InitializerSpec::Factor>(found - kFactors.begin());
  return spec;
}

// Xavier's rule, adapted to an activation whose slope for negative inputs is an argument.
std::optional<InitializerSpec> msraprelu(const Json& arguments) {
  const std::optional<double> slope = number(arguments, "slope", 0.25);
  const std::optional<std::string> factor = word(arguments, "factor_type", "avg");
  if (!slope || !factor) return std::nullopt;
  return xavier({{"rnd_type", "gaussian"}, {"factor_type", *factor}, {"magnitude", 2 / (1 + *slope * *slope)}});
}

std::optional<InitializerSpec> orthogonal(const Json& arguments) {
  const std::optional<std::string> type = word(arguments, "rand_type", "uniform");
  std::optional<InitializerSpec> spec = with_value(Kind::kOrthogonal, number(arguments, "scale", 1.414));
  if (!spec || !type || (*type != "uniform" && *type != "normal")) return std::nullopt;
  spec->gaussian = *type == "normal";
  return spec;
}

// Reads `json`, which is [NAME, {KEY: VALUE, ...}]. A missing argument has MXNet's default value.
std::optional<InitializerSpec> initializer(const Json& json) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_string() || !json[1].is_object()) return std::nullopt;
  const auto name = json[0].get<std::string>();
  const Json& arguments = json[1];
  if (name == "zero" || name == "zeros") return with_value(Kind::kConstant, 0);
  if (name == "one" || name == "ones") return with_value(Kind::kConstant, 1);
  if (name == "constant") return with_value(Kind::kConstant, number(arguments, "value", 0));
  if (name == "uniform") return with_value(Kind::kUniform, number(arguments, "scale", 0.07));
  if (name == "normal") return with_value(Kind::kNormal, number(arguments, "sigma", 0.01));
  if (name == "xavier") return xavier(arguments);
  if (name == "msraprelu") return msraprelu(arguments);
  if (name == "orthogonal") return orthogonal(arguments);
  if (name == "bilinear") return InitializerSpec{.kind = Kind::kBilinear};
  return std::nullopt;
}

}  // namespace

std::string initializer_text(const InitializerSpec& spec) {
  switch (spec.kind) {
    case Kind::kXavier:
      return fmt::format(R"(["xavier", {{"rnd_type": "{}", "factor_type": "{}", "magnitude": {}}}])",
                         spec.gaussian ? "gaussian" : "uniform", kFactors.at(static_cast<size_t>(spec.factor)),
                         spec.magnitude);
    case Kind::kUniform: return fmt::format(R"(["uniform", {{"scale": {}}}])", spec.magnitude);
    case Kind::kNormal: return fmt::format(R"(["normal", {{"sigma": {}}}])", spec.magnitude);
    case Kind::kConstant:
      if (spec.magnitude == 0) return R"(["zero", {}])";
      return fmt::format(R"(["constant", {{"value": {}}}])", spec.magnitude);
    case Kind::kBilinear: return R"(["bilinear", {}])";
    case Kind::kOrthogonal:
      return fmt::format(R"(["orthogonal", {{"scale": {}, "rand_type": "{}"}}])", spec.magnitude,
                         spec.gaussian ? "normal" : "uniform");
    case Kind::kDiagonal:
    case Kind::kIdentityTransformation: break;
  }
  return "";
}

Result<InitializerSpec> read_initializer(std::string_view text) {
  const std::optional<InitializerSpec> spec =
      initializer(text.starts_with('[') ? parse_json(text) : Json::array({text, Json::object()}));
  if (spec) return *spec;
  return fail(Code::kUsage,
              "the initializer '{}' is not one of xavier, msraprelu, orthogonal, bilinear, uniform, normal, constant, "
              "zero and one with MXNet's arguments",
              printable(text));
}

}  // namespace dtrain::graph
