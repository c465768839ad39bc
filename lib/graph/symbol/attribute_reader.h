// Reads the attributes of a node of a symbol file, whose values are texts, as MXNet 1.9 reads them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/spelling.h"

namespace dtrain::graph {

// These functions parse single texts; the comments give examples. Nullopt if the text is not such a value.
std::optional<int64_t> whole_number(std::string_view text);             // "8"; not "8.0" or "8x"
std::optional<double> real_number(std::string_view text);               // finite: "0.9", "2e-05", "1"
std::optional<bool> truth_value(std::string_view text);                 // "True", "false", "1", "0"
std::optional<std::vector<int64_t>> dimensions(std::string_view text);  // "(3, 3)", "[3,3]", "(3L, 3L)", "(3,)"

// Values as Python writes them: "0.9", "2e-05", "1.0"; "True"; "(3, 3)".
std::string python_text(double value);
std::string python_text(bool value);
std::string python_text(std::pair<int64_t, int64_t> value);

// Whether the key is one such as "__lr_mult__", which is not an argument of the operator.
bool is_hidden_attribute(std::string_view key);

struct Range {
  int64_t first = 0, last = 0;
};

// Reads the attributes of one node. After the first problem, which is kept, all calls return their fallbacks, so that
// functions that read operators need no checks between the attributes. An attribute that was not read is a problem too.
class AttributeReader {
 public:
  using Pair = std::pair<int64_t, int64_t>;
  using Names = std::initializer_list<std::string_view>;

  explicit AttributeReader(const Attributes& attributes) : attributes_(attributes) {}

  // The following functions read an attribute, which must exist if no fallback is given.
  int64_t number(std::string_view key, Range range, std::optional<int64_t> fallback = {});
  double real(std::string_view key, std::optional<double> fallback = {});
  bool truth(std::string_view key, bool fallback);
  Pair pair(std::string_view key, Range range, std::optional<Pair> fallback = {});
  // Returns the index of the attribute's text in `values`.
  size_t choice(std::string_view key, Names values, std::optional<size_t> fallback = {});

  // The following functions read an attribute of which dtrain supports only the value `value`. Any other value is a
  // problem.
  void only_truth(std::string_view key, bool value);
  void only_number(std::string_view key, int64_t value);
  void only(std::string_view key, Names values);
  // Accepts attributes that do not change what the operator computes.
  void ignore(Names keys);

  [[nodiscard]] bool has(std::string_view key) const { return attributes_.contains(key); }
  void problem(std::string text);
  // The first problem; nullopt if there is none.
  [[nodiscard]] std::optional<std::string> finish();

 private:
  const std::string* find(std::string_view key, bool required);
  void wrong(std::string_view key, const std::string& text, std::string_view expected);

  const Attributes& attributes_;
  std::vector<std::string_view> known_;
  std::optional<std::string> problem_;
};

}  // namespace dtrain::graph
