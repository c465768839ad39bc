#include "optim/initializer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::optim;

namespace {

std::vector<float> filled(const std::string& spec, const Shape& shape, uint64_t seed = 1, uint64_t index = 0,
                          ParameterKind kind = ParameterKind::kWeight) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)), 99.0F);
  REQUIRE(initialize(*parse_initializer(spec), {"tensor", kind, shape, values, {}}, seed, index));
  return values;
}

double bound(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double deviation(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

// With a probability of 95 %, the largest of n uniform draws is within 3 / n of the bound, and the standard deviation
// of n normal draws within 3 / sqrt(2 n) of its expectation. The seed is fixed, so the result does not vary.
TEST_CASE("xavier has the documented scales", "[optim]") {
  const Shape conv = {96, 3, 3, 3};
  const Shape dense = {10, 336};
  const auto n = 2592.0;
  CHECK(bound(filled("xavier(uniform,in,2.34)", conv)) == Approx(0.294392029).epsilon(3 / n));
  CHECK(deviation(filled("xavier(gaussian,in,2)", conv)) == Approx(0.272165527).epsilon(3 / std::sqrt(2 * n)));
  CHECK(bound(filled("xavier", conv)) == Approx(0.082060994).epsilon(3 / n));
  CHECK(bound(filled("xavier(uniform,in,2.34)", dense)) == Approx(0.083452296).epsilon(3 / n));
  CHECK(deviation(filled("xavier(gaussian,in,2)", dense)) == Approx(0.077151675).epsilon(3 / std::sqrt(2 * n)));
  CHECK(bound(filled("xavier()", dense)) == Approx(0.131685384).epsilon(3 / n));
  // bounds are never exceeded
  CHECK(bound(filled("xavier(uniform,in,2.34)", conv)) <= 0.2943921);
  // fan_out of (10, 336): sqrt(3 / 10)
  CHECK(bound(filled("xavier(uniform,out,3)", dense)) == Approx(std::sqrt(0.3)).epsilon(3 / n));
}

// msra is xavier(gaussian,FACTOR,2 / (1 + SLOPE^2)).
TEST_CASE("msra has the documented scales, one and zero are constant", "[optim]") {
  CHECK(deviation(filled("msra", {96, 3, 3, 3})) == Approx(0.065001993).epsilon(3 / std::sqrt(2 * 2592.0)));
  CHECK(deviation(filled("msra()", {10, 336})) == Approx(0.104310368).epsilon(3 / std::sqrt(2 * 3360.0)));
  CHECK(to_string(*parse_initializer("msra(in,0)")) == "xavier(gaussian,in,2)");
  CHECK(to_string(*parse_initializer("msra(out,1)")) == "xavier(gaussian,out,1)");
  CHECK(filled("one", {4}) == std::vector<float>(4, 1.0F));
  CHECK(filled("zero", {4}) == std::vector<float>(4, 0.0F));
  CHECK(filled("one", {4}, 1, 0, ParameterKind::kBias) == std::vector<float>(4, 0.0F));  // only weights
}

// The products of all pairs of rows, or of columns if the matrix has more rows.
TEST_CASE("an orthogonal matrix has orthonormal rows or columns, times its scale", "[optim]") {
  for (const char* text : {"orthogonal", "orthogonal(gaussian,0.5)"}) {
    for (const Shape& shape : {Shape{7, 3, 2, 2}, Shape{40, 6}, Shape{5, 5}, Shape{1, 9}, Shape{64, 32, 3, 3}}) {
      INFO(text << " " << to_string(shape));
      const std::vector<float> w = filled(text, shape);
      const auto rows = static_cast<size_t>(shape[0]), columns = w.size() / rows;
      const bool by_row = rows <= columns;
      const double scale = parse_initializer(text)->magnitude;
      for (size_t a = 0; a < std::min(rows, columns); a++) {
        for (size_t b = 0; b <= a; b++) {
          double product = 0;
          for (size_t i = 0; i < std::max(rows, columns); i++) {
            const size_t x = by_row ? a * columns + i : i * columns + a, y = by_row ? b * columns + i : i * columns + b;
            product += static_cast<double>(w[x]) * static_cast<double>(w[y]);
          }
          REQUIRE(product == Approx(a == b ? scale * scale : 0).margin(1e-6));
        }
      }
    }
  }
  CHECK(filled("orthogonal", {4, 4}, 1) != filled("orthogonal", {4, 4}, 2));
}

// The values of MXNet 1.9.1.
TEST_CASE("bilinear is the filter of an enlargement", "[optim]") {
  const float a = 0.0625F, b = 0.1875F, c = 0.5625F;
  const std::vector<float> three = {a, b, b, b, c, c, b, c, c}, wide = {a, b, b, a, b, c, c, b};
  CHECK(filled("bilinear", {1, 1, 3, 3}) == three);
  CHECK(filled("bilinear", {1, 1, 2, 4}) == wide);
  const std::vector<float> two = filled("bilinear", {2, 1, 3, 3});
  CHECK(std::equal(three.begin(), three.end(), two.begin() + 9));
  std::vector<float> values(6);
  const Result<> refused =
      initialize(*parse_initializer("bilinear"), {"fc_weight", ParameterKind::kWeight, {2, 3}, values, {}}, 1, 0);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("'fc_weight'") && Catch::Contains("four dimensions"));
}

TEST_CASE("bilinear and msraprelu are read from their texts", "[optim]") {
  CHECK(to_string(*parse_initializer("msraprelu(in,0)")) == "xavier(gaussian,in,2)");
  CHECK(to_string(*parse_initializer("msraprelu")) == to_string(*parse_initializer("msra")));
  CHECK(to_string(*parse_initializer("bilinear")) == "bilinear");
  CHECK(parse_initializer("bilinear(1)").error().code == Code::kUsage);
}

TEST_CASE("a network's own rule replaces the job's", "[optim]") {
  using Kind = InitializerSpec::Kind;
  std::vector<float> weight(4 * 2 * 3, 9.0F), other(6, 9.0F), variance(2, 9.0F);
  const auto rule = [](Kind kind, double magnitude) {
    return ParameterRule{{}, {}, InitializerSpec{.kind = kind, .magnitude = magnitude}};
  };
  ParameterView view;
  view.parameters.push_back({"proj", ParameterKind::kWeight, {4, 2, 1, 3}, weight, {}, rule(Kind::kDiagonal, 0.25)});
  view.parameters.push_back({"fc", ParameterKind::kWeight, {2, 3}, other, {}, {}});
  view.statistics.push_back({"variance", ParameterKind::kOther, {2}, variance, {}, rule(Kind::kConstant, 0)});
  REQUIRE(initialize(*parse_initializer("xavier"), view, 7));
  for (size_t i = 0; i < weight.size(); i++) {
    const size_t filter = i / 6, channel = i / 3 % 2;
    CHECK(weight[i] == (filter == channel ? 0.25F : 0.0F));
  }
  CHECK(variance == std::vector<float>{0, 0});
  CHECK(other == filled("xavier", {2, 3}, 7, 1));  // parameters with a rule of their own count too
}

TEST_CASE("uniform and normal have their scale and mean 0", "[optim]") {
  const Shape shape = {100, 100};
  const auto uniform = filled("uniform(0.07)", shape);
  CHECK(bound(uniform) == Approx(0.07).epsilon(1e-3));
  const auto normal = filled("normal(0.01)", shape);
  CHECK(deviation(normal) == Approx(0.01).epsilon(0.03));
  const double mean = std::accumulate(normal.begin(), normal.end(), 0.0) / 1e4;
  CHECK(std::abs(mean) < 3 * 0.01 / 100);
}

TEST_CASE("only weights are random", "[optim]") {
  const auto begin = [](ParameterKind kind) { return filled("xavier", {4}, 1, 0, kind); };
  const std::vector<float> zeros(4, 0.0F);
  const std::vector<float> ones(4, 1.0F);
  CHECK(begin(ParameterKind::kBias) == zeros);
  CHECK(begin(ParameterKind::kBeta) == zeros);
  CHECK(begin(ParameterKind::kGamma) == ones);
}

TEST_CASE("a tensor whose initial value nothing gives is refused by name", "[optim]") {
  std::vector<float> values(4);
  ParameterSpan tensor{"prelu_alpha", ParameterKind::kOther, {4}, values, {}};
  const Result<> refused = initialize({}, tensor, 1, 0);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("'prelu_alpha'"));
  tensor.rule.initial = InitializerSpec{.kind = InitializerSpec::Kind::kConstant, .magnitude = 0.25};
  REQUIRE(initialize({}, tensor, 1, 0));
  CHECK(values == std::vector<float>(4, 0.25F));
}

// A symbol file may give a bias the initial value of a weight.
TEST_CASE("rules for matrices refuse a vector by name", "[optim]") {
  using Kind = InitializerSpec::Kind;
  std::vector<float> values(4);
  ParameterSpan tensor{"fc_bias", ParameterKind::kBias, {4}, values, {}};
  for (const Kind kind : {Kind::kXavier, Kind::kOrthogonal, Kind::kDiagonal}) {
    tensor.rule.initial = InitializerSpec{.kind = kind};
    const Result<> refused = initialize({}, tensor, 1, 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kUsage);
    CHECK_THAT(refused.error().message, Catch::Contains("'fc_bias'") && Catch::Contains("(4,)"));
  }
}

// A name that looks like that of another kind changes nothing.
TEST_CASE("the name of a tensor has no meaning", "[optim]") {
  std::vector<float> values(4);
  REQUIRE(initialize({}, {"my_weight", ParameterKind::kGamma, {4}, values, {}}, 1, 0));
  CHECK(values == std::vector<float>(4, 1.0F));
}

TEST_CASE("the numbers depend only on seed and index", "[optim]") {
  const Shape shape = {4, 4};
  CHECK(filled("xavier", shape, 7, 3) == filled("xavier", shape, 7, 3));
  CHECK(filled("xavier", shape, 7, 3) != filled("xavier", shape, 8, 3));
  CHECK(filled("xavier", shape, 7, 3) != filled("xavier", shape, 7, 4));
}

TEST_CASE("the text form is read back", "[optim]") {
  for (const char* text : {"xavier(uniform,in,2.34)", "xavier(gaussian,out,2)", "xavier(uniform,avg,3)",
                           "uniform(0.07)", "normal(0.01)", "orthogonal(gaussian,2)"}) {
    const auto spec = parse_initializer(text);
    REQUIRE(spec);
    CHECK(to_string(*spec) == text);
  }
  CHECK(to_string(*parse_initializer("xavier")) == "xavier(uniform,avg,3)");
  CHECK(to_string(*parse_initializer("orthogonal()")) == "orthogonal(uniform,1.414)");
  CHECK(to_string(*parse_initializer("uniform")) == "uniform(0.07)");
  CHECK(to_string(*parse_initializer("normal")) == "normal(0.01)");
  CHECK(to_string(*parse_initializer("normal(0.5)")) == "normal(0.5)");
  CHECK(to_string(*parse_initializer(" xavier( gaussian, in ) ")) == "xavier(gaussian,in,3)");
}

TEST_CASE("other texts are refused with the forms that exist", "[optim]") {
  for (const char* text : {"",
                           "(",
                           ")",
                           "xavier(",
                           "xavier)",
                           "xavier(uniform)in)",
                           "xavier(in)",
                           "xavier(uniform,all)",
                           "xavier(uniform,in,-1)",
                           "xavier(uniform,in,2,3)",
                           "uniform(x)",
                           "uniform(0.1,2)",
                           "normal(nan)",
                           "gaussian",
                           "kaiming",
                           "msra(uniform)",
                           "msra(in,-1)",
                           "msra(in,1,2)",
                           "one(2)",
                           "orthogonal(2)",
                           "orthogonal(uniform,0)",
                           "orthogonal(uniform,1,2)"}) {
    INFO("text " << text);
    const auto spec = parse_initializer(text);
    REQUIRE_FALSE(spec);
    CHECK(spec.error().code == Code::kUsage);
    CHECK_THAT(spec.error().message, Catch::Contains("xavier(uniform|gaussian"));
  }
}
