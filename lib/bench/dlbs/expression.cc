#include "bench/dlbs/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

namespace dtrain::bench {
namespace {

constexpr int kNestingMax = 64;

// A value that cannot be computed. This is an error only if the value is used: "1 / 0 if False else 2" is 2.
struct Undefined {
  std::string why;
};
using Value = std::variant<int64_t, double, bool, std::string, Undefined>;

Value undefined(std::string why) {
  return Undefined{std::move(why)};
}

bool is_text(const Value& value) {
  return std::holds_alternative<std::string>(value);
}

// The value as an integer, where a boolean counts as 0 or 1. Nullopt if it is not an integer.
std::optional<int64_t> integer_of(const Value& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  return std::nullopt;
}

double number_of(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return static_cast<double>(integer_of(value).value());
}

std::string text_of(const Value& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "True" : "False";
  if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  std::string digits = fmt::format("{}", std::get<double>(value));
  const bool looks_whole = digits.find_first_not_of("-0123456789") == std::string::npos;
  return looks_whole ? digits + ".0" : digits;
}

bool is_true(const Value& value) {
  return is_text(value) ? !std::get<std::string>(value).empty() : number_of(value) != 0;
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return undefined("it divides by 0");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  bool fits = true;
  while (exponent > 0 && fits) {
    if (exponent % 2 == 1) fits = !__builtin_mul_overflow(result, base, &result);
    exponent /= 2;
    if (exponent > 0) fits = fits && !__builtin_mul_overflow(base, base, &base);
  }
  return fits ? Value(result) : undefined("the value is too large");
}

// The quotient, rounded towards minus infinity.
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value of_integers(const std::string& op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (op == "+") overflows = __builtin_add_overflow(a, b, &result);
  if (op == "-") overflows = __builtin_sub_overflow(a, b, &result);
  if (op == "*") overflows = __builtin_mul_overflow(a, b, &result);
  if (op == "**") return power(a, b);
  const bool divides = op == "/" || op == "//" || op == "%";
  if (divides && b == 0) return undefined("it divides by 0");
  if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (divides && a == INT64_MIN && b == -1) overflows = op == "//";
  if (overflows) return undefined("the value is too large");
  if (op == "//") result = floor_quotient(a, b);
  if (op == "%") result = b == -1 ? 0 : a - floor_quotient(a, b) * b;
  return result;
}

Value of_numbers(const std::string& op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") {
    const double result = std::pow(a, b);
    return std::isfinite(result) ? Value(result) : undefined("the value is not a finite number");
  }
  if (b == 0) return undefined("it divides by 0");
  if (op == "/") return a / b;
  return op == "//" ? std::floor(a / b) : a - std::floor(a / b) * b;
}

Value arithmetic(const std::string& op, const Value& a, const Value& b) {
  if (std::holds_alternative<Undefined>(a)) return a;
  if (std::holds_alternative<Undefined>(b)) return b;
  if (is_text(a) || is_text(b)) return undefined(fmt::format("'{}' needs numbers, not strings", op));
  const std::optional<int64_t> x = integer_of(a), y = integer_of(b);
  return x && y ? of_integers(op, *x, *y) : of_numbers(op, number_of(a), number_of(b));
}

template <class T>
bool in_order(const std::string& op, const T& a, const T& b) {
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  return (a == b) == (op == "==");
}

Value comparison(const std::string& op, const Value& a, const Value& b) {
  if (std::holds_alternative<Undefined>(a)) return a;
  if (std::holds_alternative<Undefined>(b)) return b;
  if (is_text(a) && is_text(b)) return in_order(op, std::get<std::string>(a), std::get<std::string>(b));
  if (is_text(a) != is_text(b)) {
    if (op == "==" || op == "!=") return op == "!=";
    return undefined(fmt::format("'{}' compares a number with a string", op));
  }
  const std::optional<int64_t> x = integer_of(a), y = integer_of(b);
  return x && y ? in_order(op, *x, *y) : in_order(op, number_of(a), number_of(b));
}

struct Token {
  enum class Kind { kEnd, kOperator, kWord, kValue };
  Kind kind = Kind::kEnd;
  std::string text;  // text of the operator or word
  Value value;
};

// Evaluates an expression while parsing it, because each expression is evaluated only once.
class Evaluator {
 public:
  explicit Evaluator(std::string_view text) : rest_(text) {}

  Result<Value> run() {
    DT_TRY_VOID(advance());
    DT_TRY(Value value, conditional(0));
    if (token_.kind != Token::Kind::kEnd) return unexpected();
    return value;
  }

 private:
  [[nodiscard]] bool at(std::string_view text) const {
    return (token_.kind == Token::Kind::kOperator || token_.kind == Token::Kind::kWord) && token_.text == text;
  }

  [[nodiscard]] tl::unexpected<Error> unexpected() const {
    constexpr const char* kAllowed =
        "an expression can contain numbers, quoted strings, ( ) + - * / // % **, comparisons and X if CONDITION else Y";
    if (token_.kind == Token::Kind::kEnd) return fail(Code::kUsage, "the expression ends too early; {}", kAllowed);
    const std::string shown = token_.kind == Token::Kind::kValue ? text_of(token_.value) : token_.text;
    return fail(Code::kUsage, "'{}' is not allowed at this place; {}", shown, kAllowed);
  }

  Result<> advance() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    token_ = {};
    if (rest_.empty()) return {};
    const char first = rest_[0];
    if (first == '\'' || first == '"') return read_text(first);
    const bool dot_and_digit = first == '.' && rest_.size() > 1 && is_digit(rest_[1]);
    if (is_digit(first) || dot_and_digit) return read_number();
    if (is_letter(first)) return read_word();
    for (const std::string_view op :
         {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "(", ")"}) {
      if (!rest_.starts_with(op)) continue;
      token_ = {Token::Kind::kOperator, std::string(op), {}};
      rest_.remove_prefix(op.size());
      return {};
    }
    token_ = {Token::Kind::kOperator, std::string(1, first), {}};  // a token that no rule accepts
    rest_.remove_prefix(1);
    return {};
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  Result<> read_text(char quote) {
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return fail(Code::kUsage, "a string lacks its closing {}", quote);
    token_ = {Token::Kind::kValue, "", std::string(rest_.substr(1, end - 1))};
    rest_.remove_prefix(end + 1);
    return {};
  }

  Result<> read_number() {
    const char* begin = rest_.data();
    const char* end = begin + rest_.size();
    int64_t integer = 0;
    double number = 0;
    const auto as_number = std::from_chars(begin, end, number);
    const auto as_integer = std::from_chars(begin, end, integer);
    if (as_number.ec != std::errc()) return fail(Code::kUsage, "the number at '{}' is out of range", rest_);
    const bool is_integer = as_integer.ptr == as_number.ptr;
    if (is_integer && as_integer.ec != std::errc()) {
      return fail(Code::kUsage, "the number at '{}' is out of range", rest_);
    }
    token_ = {Token::Kind::kValue, "", is_integer ? Value(integer) : Value(number)};
    rest_.remove_prefix(static_cast<size_t>(as_number.ptr - begin));
    return {};
  }

  Result<> read_word() {
    size_t length = 1;
    while (length < rest_.size() && (is_letter(rest_[length]) || is_digit(rest_[length]))) length++;
    const std::string word(rest_.substr(0, length));
    rest_.remove_prefix(length);
    token_ = {Token::Kind::kWord, word, {}};
    if (word == "True" || word == "False") token_ = {Token::Kind::kValue, "", word == "True"};
    return {};
  }

  // Parses "X if CONDITION else Y".
  Result<Value> conditional(int depth) {
    if (depth > kNestingMax) return fail(Code::kUsage, "the expression is nested more than {} deep", kNestingMax);
    DT_TRY(Value value, comparisons(depth));
    if (!at("if")) return value;
    DT_TRY_VOID(advance());
    DT_TRY(const Value condition, comparisons(depth));
    if (!at("else")) return unexpected();
    DT_TRY_VOID(advance());
    DT_TRY(Value otherwise, conditional(depth + 1));
    if (std::holds_alternative<Undefined>(condition)) return condition;
    return is_true(condition) ? value : otherwise;
  }

  [[nodiscard]] bool at_comparison() const {
    for (const char* op : {"==", "!=", "<", "<=", ">", ">="}) {
      if (at(op)) return true;
    }
    return false;
  }

  // Chains of comparisons: "1 < x < 3" is true if both comparisons are.
  Result<Value> comparisons(int depth) {
    DT_TRY(Value left, sum(depth));
    if (!at_comparison()) return left;
    Value result = true;
    while (at_comparison()) {
      const std::string op = token_.text;
      DT_TRY_VOID(advance());
      DT_TRY(Value right, sum(depth));
      if (const bool* holds = std::get_if<bool>(&result); holds != nullptr && *holds) {
        result = comparison(op, left, right);
      }
      left = std::move(right);
    }
    return result;
  }

  Result<Value> sum(int depth) {
    DT_TRY(Value left, product(depth));
    while (at("+") || at("-")) {
      const std::string op = token_.text;
      DT_TRY_VOID(advance());
      DT_TRY(const Value right, product(depth));
      left = arithmetic(op, left, right);
    }
    return left;
  }

  Result<Value> product(int depth) {
    DT_TRY(Value left, signed_power(depth));
    while (at("*") || at("/") || at("//") || at("%")) {
      const std::string op = token_.text;
      DT_TRY_VOID(advance());
      DT_TRY(const Value right, signed_power(depth));
      left = arithmetic(op, left, right);
    }
    return left;
  }

  // A power, perhaps with signs: -2 ** 2 is -(2 ** 2), and 2 ** -1 is allowed.
  Result<Value> signed_power(int depth) {
    if (depth > kNestingMax) return fail(Code::kUsage, "the expression is nested more than {} deep", kNestingMax);
    if (at("-") || at("+")) {
      const std::string sign = token_.text;
      DT_TRY_VOID(advance());
      DT_TRY(const Value value, signed_power(depth + 1));
      return arithmetic(sign, Value(int64_t{0}), value);
    }
    DT_TRY(Value base, atom(depth));
    if (!at("**")) return base;
    DT_TRY_VOID(advance());
    DT_TRY(const Value exponent, signed_power(depth + 1));
    return arithmetic("**", base, exponent);
  }

  Result<Value> atom(int depth) {
    if (token_.kind == Token::Kind::kValue) {
      Value value = token_.value;
      DT_TRY_VOID(advance());
      return value;
    }
    if (!at("(")) return unexpected();
    DT_TRY_VOID(advance());
    DT_TRY(Value value, conditional(depth + 1));
    if (!at(")")) return unexpected();
    DT_TRY_VOID(advance());
    return value;
  }

  std::string_view rest_;
  Token token_;
};

}  // namespace

Result<std::string> evaluate_expression(std::string_view expression) {
  Result<Value> value = Evaluator(expression).run();
  if (value && std::holds_alternative<Undefined>(*value))
    value = fail(Code::kUsage, "{}", std::get<Undefined>(*value).why);
  if (value) return text_of(*value);
  return fail(Code::kUsage, "the expression $({})$ has no value: {}", expression, value.error().message);
}

}  // namespace dtrain::bench
