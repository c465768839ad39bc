#include "job/flags/toml_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <optional>

#include "base/printable.h"

namespace dtrain::job {

namespace {

// The limit exists because toml++ recurses on nested values, and on keys such as a.b.c. Flags need no more than a list.
constexpr size_t kDepthMax = 16;

// Walks over a TOML text and counts open brackets outside of strings and comments. It does not check the syntax; toml++
// does.
class Nesting {
 public:
  explicit Nesting(std::string_view text) : text_(text) {}

  // The line on which the nesting becomes too deep; nullopt if it never does.
  std::optional<int64_t> too_deep_line() {
    for (at_ = 0; at_ < text_.size(); at_++) {
      step(text_[at_]);
      if (brackets_ > kDepthMax || dots_ > kDepthMax) return line_;
    }
    return std::nullopt;
  }

 private:
  void step(char c) {
    if (c == '"' || c == '\'') return skip_string(c);
    if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    if (c == '\n') line_++;
    if (c == '[' || c == '{') brackets_++;
    if ((c == ']' || c == '}') && brackets_ > 0) brackets_--;
    dots_ = c == '.' ? dots_ + 1 : c == '\n' || c == '=' || c == ',' || c == '[' || c == '{' ? 0 : dots_;
  }

  // Moves to the last character of the string that begins here. A single-line string ends with its line in any case.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool multiline = text_.substr(at_).starts_with(three);
    at_ += multiline ? 3 : 1;
    for (; at_ < text_.size(); at_++) {
      if (quote == '"' && text_[at_] == '\\') {
        at_++;
      } else if (text_[at_] == '\n') {
        line_++;
        if (!multiline) return;
      } else if (multiline ? text_.substr(at_).starts_with(three) : text_[at_] == quote) {
        at_ += multiline ? 2 : 0;
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0, brackets_ = 0, dots_ = 0;
  int64_t line_ = 1;
};

std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get() ? "1" : "0";
  if (const auto* value = node.as_integer()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_string()) return value->get();
  const toml::array* list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::string text;
  for (const toml::node& element : *list) {
    const std::optional<std::string> part = element.is_array() ? std::nullopt : text_of(element);
    if (!part) return std::nullopt;
    text += (text.empty() ? "" : ",") + *part;
  }
  return text;
}

std::vector<std::string> elements_of(const toml::node& node) {
  std::vector<std::string> elements;
  const toml::array* list = node.as_array();
  if (list == nullptr) return {text_of(node).value_or("")};
  for (const toml::node& element : *list) elements.push_back(text_of(element).value_or(""));
  return elements;
}

}  // namespace

Result<std::vector<TomlSetting>> parse_toml(std::string_view text, const std::string& name) {
  if (const std::optional<int64_t> line = Nesting(text).too_deep_line()) {
    return fail(Code::kUsage, "{}:{}: brackets or dots are nested more than {} deep", name, *line, kDepthMax);
  }
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const bool twice = error.description().find("redefine") != std::string_view::npos;
    return fail(Code::kUsage, "{}:{}: column {}: {}", name, error.source().begin.line, error.source().begin.column,
                twice ? "this flag is set already in a line above"
                      : "the file must have lines of the form FLAG = VALUE, with texts in double quotes, such as "
                        "network = \"lenet\" and lr = 0.1");
  }
  std::vector<TomlSetting> settings;
  for (const auto& [key, node] : table) {
    const auto line = static_cast<int64_t>(node.source().begin.line);
    std::optional<std::string> value = text_of(node);
    if (!value) {
      return fail(Code::kUsage, "{}:{}: the value of '{}' is not a string, number, boolean or list of these", name,
                  line, printable(key.str()));
    }
    settings.push_back({std::string(key.str()), std::move(*value), elements_of(node), line});
  }
  return settings;
}

}  // namespace dtrain::job
