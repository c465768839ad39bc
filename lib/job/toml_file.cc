#include "job/toml_file.h"

#include <toml++/toml.h>

namespace dtrain::job {

namespace {

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
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return fail(Code::kUsage, "{}:{}: {}", name, error.source().begin.line, error.description());
  }
  std::vector<TomlSetting> settings;
  for (const auto& [key, node] : table) {
    const auto line = static_cast<int64_t>(node.source().begin.line);
    std::optional<std::string> value = text_of(node);
    if (!value) {
      return fail(Code::kUsage, "{}:{}: '{}' is no value of a flag: a text, number, true, false or a list of them",
                  name, line, key.str());
    }
    settings.push_back({std::string(key.str()), std::move(*value), elements_of(node), line});
  }
  return settings;
}

}  // namespace dtrain::job
