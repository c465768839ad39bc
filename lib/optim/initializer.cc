#include "optim/initializer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/random.h"

namespace dtrain::optim {
namespace {

constexpr std::string_view kForms =
    "use xavier(uniform|gaussian,avg|in|out,MAGNITUDE), msra(avg|in|out,SLOPE) or msraprelu, "
    "orthogonal(uniform|gaussian,SCALE), bilinear, uniform(SCALE), normal(SIGMA), one or zero";

tl::unexpected<Error> refused(std::string_view text) {
  return fail(Code::kUsage, "unknown initializer '{}': {}", text, kForms);
}

// Splits "a( b , c )" into {"a", "b", "c"} and "a()" into {"a"}. Empty if the brackets do not match.
std::vector<std::string> name_and_arguments(std::string_view text) {
  std::string plain;
  std::copy_if(text.begin(), text.end(), std::back_inserter(plain), [](char c) { return c != ' '; });
  const size_t open = plain.find('(');
  if (open == std::string::npos) return {plain};
  if (plain.find_first_of("()", open + 1) != plain.size() - 1 || plain.back() != ')') return {};
  std::vector<std::string> parts = {plain.substr(0, open)};
  std::istringstream arguments(plain.substr(open + 1, plain.size() - open - 2));
  for (std::string argument; std::getline(arguments, argument, ',');) parts.push_back(argument);
  return parts;
}

bool read_positive(const std::string& text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value > 0;
}

Result<InitializerSpec> parse_xavier(std::string_view text, const std::vector<std::string>& parts) {
  InitializerSpec spec;
  if (parts.size() > 4) return refused(text);
  if (parts.size() > 1) {
    if (parts[1] != "uniform" && parts[1] != "gaussian") return refused(text);
    spec.gaussian = parts[1] == "gaussian";
  }
  if (parts.size() > 2) {
    if (parts[2] != "avg" && parts[2] != "in" && parts[2] != "out") return refused(text);
    using Factor = InitializerSpec::Factor;
    spec.factor = parts[2] == "in" ? Factor::kIn : parts[2] == "out" ? Factor::kOut : Factor::kAverage;
  }
  if (parts.size() > 3 && !read_positive(parts[3], spec.magnitude)) return refused(text);
  return spec;
}

// Parses "msra(in,SLOPE)" and the like: Xavier's rule, adapted to an activation whose slope for negative inputs is
// SLOPE.
Result<InitializerSpec> parse_msra(std::string_view text, const std::vector<std::string>& parts) {
  double slope = 0.25;
  if (parts.size() > 3 || (parts.size() == 3 && parts[2] != "0" && !read_positive(parts[2], slope))) {
    return refused(text);
  }
  if (parts.size() == 3 && parts[2] == "0") slope = 0;
  std::vector<std::string> of_xavier = {"xavier", "gaussian"};
  if (parts.size() > 1) of_xavier.push_back(parts[1]);
  DT_TRY(InitializerSpec spec, parse_xavier(text, of_xavier));
  spec.magnitude = 2 / (1 + slope * slope);
  return spec;
}

Result<InitializerSpec> parse_orthogonal(std::string_view text, const std::vector<std::string>& parts) {
  InitializerSpec spec{.kind = InitializerSpec::Kind::kOrthogonal, .magnitude = 1.414};
  if (parts.size() > 3 || (parts.size() > 1 && parts[1] != "uniform" && parts[1] != "gaussian")) return refused(text);
  spec.gaussian = parts.size() > 1 && parts[1] == "gaussian";
  if (parts.size() > 2 && !read_positive(parts[2], spec.magnitude)) return refused(text);
  return spec;
}

// The scale of Xavier's rule. fan_in = shape[1] hw and fan_out = shape[0] hw, where hw is the product of the dimensions
// from the third on.
double xavier_scale(const InitializerSpec& spec, const Shape& shape) {
  double hw = 1;
  for (size_t i = 2; i < shape.size(); i++) hw *= static_cast<double>(shape[i]);
  const double fan_in = static_cast<double>(shape[1]) * hw;
  const double fan_out = static_cast<double>(shape[0]) * hw;
  const double factor = spec.factor == InitializerSpec::Factor::kIn    ? fan_in
                        : spec.factor == InitializerSpec::Factor::kOut ? fan_out
                                                                       : (fan_in + fan_out) / 2;
  return std::sqrt(spec.magnitude / factor);
}

void fill_diagonal(double value, const Shape& shape, std::span<float> values) {
  DT_CHECK(shape.size() >= 2, "a diagonal needs two dimensions, but the shape is {}", dtrain::to_string(shape));
  const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
  const size_t taps = values.size() / rows / columns;
  std::fill(values.begin(), values.end(), 0.0F);
  for (size_t i = 0; i < std::min(rows, columns); i++) {
    const std::span<float> filter = values.subspan((i * columns + i) * taps, taps);
    std::fill(filter.begin(), filter.end(), static_cast<float>(value));
  }
}

// The dot product. It uses eight sums to keep a processor's units busy: 4096 x 4096 values take half a minute instead
// of two and a half.
double dot(std::span<const double> a, std::span<const double> b) {
  constexpr size_t kSums = 8;
  std::array<double, kSums> sums = {};
  const size_t whole = a.size() / kSums * kSums;
  for (size_t i = 0; i < whole; i += kSums) {
    for (size_t k = 0; k < kSums; k++) sums.at(k) += a[i + k] * b[i + k];
  }
  for (size_t i = whole; i < a.size(); i++) sums[0] += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// Makes `count` vectors, stored one after the other, orthonormal by the modified Gram-Schmidt method. The dot products
// of the resulting vectors are not exactly 0: they are about the condition number of a random matrix times the rounding
// error of a double, which is far below that of a float.
void make_orthonormal(std::span<double> vectors, size_t count) {
  const size_t length = vectors.size() / count;
  for (size_t k = 0; k < count; k++) {
    const std::span<double> vector = vectors.subspan(k * length, length);
    for (size_t before = 0; before < k; before++) {
      const std::span<const double> other = vectors.subspan(before * length, length);
      const double along = dot(vector, other);
      for (size_t i = 0; i < length; i++) vector[i] -= along * other[i];
    }
    const double norm = std::sqrt(dot(vector, vector));
    for (double& x : vector) x /= norm;
  }
}

void fill_orthogonal(const InitializerSpec& spec, const Shape& shape, RandomStream random, std::span<float> values) {
  DT_CHECK(shape.size() >= 2, "orthogonal needs two dimensions, but the shape is {}", dtrain::to_string(shape));
  const auto rows = static_cast<size_t>(shape[0]);
  const size_t columns = values.size() / rows, count = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<double> vectors(values.size());
  for (double& x : vectors) x = spec.gaussian ? random.normal() : random.uniform(-1, 1);
  make_orthonormal(vectors, count);
  for (size_t k = 0; k < count; k++) {
    for (size_t i = 0; i < length; i++) {
      const size_t at = rows <= columns ? k * columns + i : i * columns + k;
      values[at] = static_cast<float>(spec.magnitude * vectors[k * length + i]);
    }
  }
}

// The filter with which a transposed convolution enlarges an image by linear interpolation. Both directions use the
// width, as in MXNet.
void fill_bilinear(const Shape& shape, std::span<float> values) {
  DT_CHECK(shape.size() == 4, "a bilinear filter needs four dimensions, but the shape is {}", dtrain::to_string(shape));
  const auto height = static_cast<size_t>(shape[2]), width = static_cast<size_t>(shape[3]), half = (width + 1) / 2;
  const auto f = static_cast<double>(half);
  const double center = (2 * f - 1 - static_cast<double>(half % 2)) / (2 * f);
  const auto part = [&](size_t at) { return 1 - std::abs(static_cast<double>(at) / f - center); };
  for (size_t i = 0; i < values.size(); i++) {
    values[i] = static_cast<float>(part(i % width) * part(i / width % height));
  }
}

void fill_identity_transformation(const Shape& shape, std::span<float> values) {
  constexpr int64_t kNumbers = 6;
  DT_CHECK(shape[0] == kNumbers, "a transformation needs 6 numbers, not {}", dtrain::to_string(shape));
  std::fill(values.begin(), values.end(), 0.0F);
  if (shape.size() == 1) values[0] = values[4] = 1;
}

void fill(const InitializerSpec& spec, const Shape& shape, RandomStream random, std::span<float> values) {
  if (spec.kind == InitializerSpec::Kind::kOrthogonal) return fill_orthogonal(spec, shape, random, values);
  if (spec.kind == InitializerSpec::Kind::kBilinear) return fill_bilinear(shape, values);
  if (spec.kind == InitializerSpec::Kind::kIdentityTransformation) return fill_identity_transformation(shape, values);
  if (spec.kind == InitializerSpec::Kind::kDiagonal) return fill_diagonal(spec.magnitude, shape, values);
  if (spec.kind == InitializerSpec::Kind::kConstant) {
    return std::fill(values.begin(), values.end(), static_cast<float>(spec.magnitude));
  }
  const bool xavier = spec.kind == InitializerSpec::Kind::kXavier;
  const bool normal = xavier ? spec.gaussian : spec.kind == InitializerSpec::Kind::kNormal;
  DT_CHECK(!xavier || shape.size() >= 2, "xavier needs at least two dimensions, but the shape is {}",
           dtrain::to_string(shape));
  const double scale = xavier ? xavier_scale(spec, shape) : spec.magnitude;
  for (float& value : values) {
    value = static_cast<float>(normal ? scale * random.normal() : random.uniform(-scale, scale));
  }
}

// Whether the rule can be used for the shape. A rule for matrices also accepts more dimensions; a rule for filters
// needs exactly four.
bool fits(InitializerSpec::Kind kind, const Shape& shape) {
  using Kind = InitializerSpec::Kind;
  if (kind == Kind::kBilinear) return shape.size() == 4;
  return shape.size() >= 2 || (kind != Kind::kXavier && kind != Kind::kOrthogonal && kind != Kind::kDiagonal);
}

// The initial value of a tensor for which the network has no rule; nullopt if its kind does not determine the value.
std::optional<InitializerSpec> initial_of(ParameterKind kind, const InitializerSpec& of_weights) {
  const auto constant = [](double value) {
    return InitializerSpec{.kind = InitializerSpec::Kind::kConstant, .magnitude = value};
  };
  switch (kind) {
    case ParameterKind::kWeight: return of_weights;
    case ParameterKind::kBias:
    case ParameterKind::kBeta: return constant(0);
    case ParameterKind::kGamma: return constant(1);
    case ParameterKind::kOther: break;
  }
  return std::nullopt;
}

}  // namespace

Result<InitializerSpec> parse_initializer(std::string_view text) {
  const std::vector<std::string> parts = name_and_arguments(text);
  if (parts.empty()) return refused(text);
  if (parts[0] == "xavier") return parse_xavier(text, parts);
  if (parts[0] == "msra" || parts[0] == "msraprelu") return parse_msra(text, parts);
  if (parts[0] == "orthogonal") return parse_orthogonal(text, parts);
  if (parts[0] == "bilinear" && parts.size() == 1) return InitializerSpec{.kind = InitializerSpec::Kind::kBilinear};
  if ((parts[0] == "one" || parts[0] == "zero") && parts.size() == 1) {
    return InitializerSpec{.kind = InitializerSpec::Kind::kConstant, .magnitude = parts[0] == "one" ? 1.0 : 0.0};
  }
  InitializerSpec spec;
  if (parts[0] == "uniform") {
    spec = {.kind = InitializerSpec::Kind::kUniform, .magnitude = 0.07};
  } else if (parts[0] == "normal") {
    spec = {.kind = InitializerSpec::Kind::kNormal, .magnitude = 0.01};
  } else {
    return refused(text);
  }
  if (parts.size() > 2 || (parts.size() == 2 && !read_positive(parts[1], spec.magnitude))) return refused(text);
  return spec;
}

std::string to_string(const InitializerSpec& spec) {
  switch (spec.kind) {
    case InitializerSpec::Kind::kUniform: return fmt::format("uniform({})", spec.magnitude);
    case InitializerSpec::Kind::kNormal: return fmt::format("normal({})", spec.magnitude);
    case InitializerSpec::Kind::kConstant: return fmt::format("constant({})", spec.magnitude);
    case InitializerSpec::Kind::kDiagonal: return fmt::format("diagonal({})", spec.magnitude);
    case InitializerSpec::Kind::kOrthogonal:
      return fmt::format("orthogonal({},{})", spec.gaussian ? "gaussian" : "uniform", spec.magnitude);
    case InitializerSpec::Kind::kBilinear: return "bilinear";
    case InitializerSpec::Kind::kIdentityTransformation: return "identity transformation";
    case InitializerSpec::Kind::kXavier: break;
  }
  static constexpr const char* kFactors[] = {"avg", "in", "out"};
  return fmt::format("xavier({},{},{})", spec.gaussian ? "gaussian" : "uniform",
                     kFactors[static_cast<int>(spec.factor)], spec.magnitude);
}

Result<> initialize(const InitializerSpec& spec, const ParameterSpan& tensor, uint64_t seed, uint64_t index) {
  DT_CHECK(static_cast<int64_t>(tensor.weight.size()) == element_count(tensor.shape),
           "'{}' has {} values, which does not match its shape {}", tensor.name, tensor.weight.size(),
           dtrain::to_string(tensor.shape));
  const std::optional<InitializerSpec> initial =
      tensor.rule.initial ? tensor.rule.initial : initial_of(tensor.kind, spec);
  if (!initial) {
    return fail(
        Code::kUsage,
        "the network sets no initial value for the parameter '{}', and there is no default for parameters of its kind",
        tensor.name);
  }
  // This is checked because a symbol file may give any rule to any tensor.
  if (!fits(initial->kind, tensor.shape)) {
    return fail(Code::kUsage, "the initial value of '{}' is {}, which needs {} dimensions, but its shape is {}",
                tensor.name, to_string(*initial), initial->kind == InitializerSpec::Kind::kBilinear ? "four" : "two",
                dtrain::to_string(tensor.shape));
  }
  fill(*initial, tensor.shape, RandomStream(seed, Use::kInit, index), tensor.weight);
  return {};
}

Result<> initialize(const InitializerSpec& spec, const ParameterView& view, uint64_t seed) {
  uint64_t index = 0;
  for (const std::vector<ParameterSpan>* tensors : {&view.parameters, &view.statistics}) {
    for (const ParameterSpan& tensor : *tensors) DT_TRY_VOID(initialize(spec, tensor, seed, index++));
  }
  return {};
}

}  // namespace dtrain::optim
