#include "bench/dlbs/expression.h"

#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::bench;
using Catch::Matchers::Contains;
using dtrain::test::must;

// The values are those of Python 3's str(eval(...)).
TEST_CASE("expressions have the values that Python gives them", "[bench][dlbs]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"8*128", "1024"},
      {"2 + 3 * 4 - -1", "15"},
      {"(2 + 3) * 4", "20"},
      {"7 / 2", "3.5"},
      {"8 / 2", "4.0"},
      {"7 // 2", "3"},
      {"-7 // 2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"-7.5 % 2", "0.5"},
      {"2 ** 10", "1024"},
      {"-2 ** 2", "-4"},
      {"2 ** -1", "0.5"},
      {"2 ** 3 ** 2", "512"},
      {"1e3", "1000.0"},
      {".5 + 1", "1.5"},
      {"0.1 + 0.2", "0.30000000000000004"},
      {"1 < 2", "True"},
      {"1 < 2 < 2", "False"},
      {"3 > 2 > 1", "True"},
      {"1 == 1.0", "True"},
      {"'a' < 'b'", "True"},
      {"'gpu' == \"gpu\"", "True"},
      {"'1' == 1", "False"},
      {"True + 1", "2"},
      {"'synthetic' if '' == '' else 'real'", "synthetic"},
      {"1 if 0 else 2 if 0 else 3", "3"},
      {"'x' if 'text' else 'y'", "x"},
      {"1 / 0 if 0 > 0 else 5", "5"},  // what is not needed is not computed
      {"9223372036854775807 - 0", "9223372036854775807"},
      {"-9223372036854775807 - 1", "-9223372036854775808"},
  };
  for (const auto& [expression, value] : cases) {
    INFO(expression);
    CHECK(must(evaluate_expression(expression)) == value);
  }
}

TEST_CASE("anything else than arithmetic is not an expression", "[bench][dlbs]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "ends too early"},
      {"1 +", "ends too early"},
      {"(1", "ends too early"},
      {"1 2", "'2' is not allowed"},
      {"1 if 2", "ends too early"},
      {"__import__('os').system('true')", "'__import__' is not allowed at this place"},
      {"open('f')", "'open' is not allowed"},
      {"len('0,1')", "'len' is not allowed"},
      {"'a'.upper()", "'.' is not allowed"},
      {"x", "'x' is not allowed"},
      {"1; 2", "';' is not allowed"},
      {"'open", "a string lacks its closing '"},
      {"1 / 0", "divides by 0"},
      {"1 // 0", "divides by 0"},
      {"1.0 % 0", "divides by 0"},
      {"0 ** -1", "divides by 0"},
      {"9223372036854775807 + 1", "too large"},
      {"9223372036854775808", "out of range"},
      {"1e999", "out of range"},
      {"3 ** 99", "too large"},
      {"1e300 ** 2", "not a finite number"},
      {"(0 - 9223372036854775807 - 1) // -1", "too large"},
      {"'a' + 'b'", "needs numbers, not strings"},
      {"'a' < 1", "compares a number with a string"},
      {std::string(1000, '('), "nested more than"},
      {std::string(1000, '-') + "1", "nested more than"},
  };
  for (const auto& [expression, why] : cases) {
    INFO(expression);
    const Result<std::string> value = evaluate_expression(expression);
    REQUIRE_FALSE(value);
    CHECK(value.error().code == Code::kUsage);
    CHECK_THAT(value.error().message, Contains(why));
  }
}
