#include "graph/symbol/symbol_file.h"

#include <fmt/ranges.h>

#include <charconv>
#include <string_view>

namespace dtrain::graph {

namespace {

// Writes a list in MXNet's layout: a space after each comma, even at the end of a line, and two spaces of indentation
// per level.
std::string sequence(char open, char close, const std::vector<std::string>& items, bool multi_line, size_t indent) {
  if (items.empty()) return {open, close};
  if (!multi_line) return fmt::format("{}{}{}", open, fmt::join(items, ", "), close);
  const std::string outside(indent, ' '), inside = "\n" + outside + "  ";
  return fmt::format("{}{}{}\n{}{}", open, inside, fmt::join(items, ", " + inside), outside, close);
}

// Writes a list of integers or entries. It is written on one line if it has at most 10 items.
std::string array(const std::vector<std::string>& items, size_t indent) {
  return sequence('[', ']', items, items.size() > 10, indent);
}

std::string object(const std::vector<std::string>& pairs, size_t indent) {
  return sequence('{', '}', pairs, pairs.size() > 1, indent);
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\r': result += "\\r"; break;
      case '\t': result += "\\t"; break;
      default: result += c;
    }
  }
  return result + '"';
}

std::string pair(std::string_view key, const std::string& json) {
  return fmt::format("{}: {}", in_quotes(key), json);
}

std::vector<std::string> entries(const std::vector<FileEntry>& list) {
  std::vector<std::string> items;
  items.reserve(list.size());
  for (const FileEntry& e : list) items.push_back(fmt::format("[{}, {}, {}]", e.node, e.output, e.version));
  return items;
}

std::string node_text(const FileNode& node) {
  constexpr size_t kIndent = 4;  // indentation of a node's brace
  std::vector<std::string> items = {pair("op", in_quotes(node.op)), pair("name", in_quotes(node.name))};
  if (!node.attributes.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : node.attributes) pairs.push_back(pair(key, in_quotes(value)));
    items.push_back(pair("attrs", object(pairs, kIndent + 2)));
  }
  items.push_back(pair("inputs", array(entries(node.inputs), kIndent + 2)));
  return sequence('{', '}', items, true, kIndent);
}

std::string attribute_or(const FileNode& node, std::string_view key, const char* fallback) {
  const auto found = node.attributes.find(key);
  return found == node.attributes.end() ? fallback : found->second;
}

}  // namespace

int64_t counted_outputs(const FileNode& node) {
  if (node.op == "BatchNorm" || node.op == "BatchNorm_v1" || node.op == "SpatialTransformer") return 3;
  if (node.op == "Dropout" || node.op == "LRN") return 2;
  if (node.op == "Pooling") return attribute_or(node, "pool_type", "max") == "max" ? 2 : 1;
  if (node.op == "SliceChannel") {
    const std::string outputs = attribute_or(node, "num_outputs", "1");
    int32_t count = 1;
    std::from_chars(outputs.data(), outputs.data() + outputs.size(), count);
    return count;
  }
  return 1;
}

std::string text(const SymbolFile& file) {
  std::vector<std::string> nodes, variables, row_pointers = {"0"};
  int64_t outputs = 0;
  for (size_t i = 0; i < file.nodes.size(); i++) {
    nodes.push_back(node_text(file.nodes[i]));
    if (is_variable(file.nodes[i])) variables.push_back(std::to_string(i));
    outputs += counted_outputs(file.nodes[i]);
    row_pointers.push_back(std::to_string(outputs));
  }
  std::vector<std::string> attributes;
  if (file.numpy_shapes) attributes.push_back(pair("is_np_shape", "[\"int\", 1]"));
  attributes.push_back(pair("mxnet_version", fmt::format("[\"int\", {}]", file.version)));
  return sequence('{', '}',
                  {pair("nodes", sequence('[', ']', nodes, true, 2)), pair("arg_nodes", array(variables, 2)),
                   pair("node_row_ptr", array(row_pointers, 2)), pair("heads", array(entries(file.heads), 2)),
                   pair("attrs", object(attributes, 2))},
                  true, 0);
}

}  // namespace dtrain::graph
