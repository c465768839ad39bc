#include "graph/symbol/parse.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/printable.h"

namespace dtrain::graph {

namespace {

// The place in the file at which the parser is. The nesting is at most top, nodes, node, inputs, entry.
enum class Place {
  kTop,
  kNodes,
  kNode,
  kAttributes,
  kInputs,
  kEntry,
  kHeads,
  kHead,
  kVariables,
  kRowPointers,
  kControl,
  kFileAttributes,
  kFileAttribute
};

using Keys = std::span<const std::string_view>;
constexpr std::array<std::string_view, 5> kTopKeys = {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"};
constexpr std::array<std::string_view, 8> kNodeKeys = {"op",    "name",   "attrs",        "attr",
                                                       "param", "inputs", "control_deps", "backward_source_id"};
constexpr std::array<std::string_view, 2> kFileAttributeKeys = {"mxnet_version", "is_np_shape"};

// Receives the parser's events, so that the whole text is never in memory as a tree.
class SymbolHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SymbolHandler(std::string_view text, const SymbolLimits& limits) : text_(text), limits_(limits) {}

  // To be called after the last event.
  Result<SymbolFile> take();
  [[nodiscard]] Error error() const { return error_.value_or(Error{Code::kData, "the file is not a symbol file", {}}); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool start_object(size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override;

 private:
  template <class... Args>
  bool refuse(fmt::format_string<Args...> format, Args&&... args) {
    error_ = Error{Code::kData, where() + fmt::format(format, std::forward<Args>(args)...), {}};
    return false;
  }
  bool unexpected(std::string_view what) { return refuse("{} is not expected here", what); }
  [[nodiscard]] std::string where() const;
  [[nodiscard]] bool inside(Place place) const { return !path_.empty() && path_.back() == place; }
  [[nodiscard]] bool inside(Place place, std::string_view field) const { return inside(place) && field_ == field; }
  bool enter(Place place) {
    path_.push_back(place);
    return true;
  }
  bool leave();

  bool known_key(const std::string& name, Keys keys);
  bool check_text(const std::string& value, size_t bytes_max);
  bool attribute_key(const std::string& name);
  bool begin_node();
  bool end_node();
  bool end_entry(std::vector<FileEntry>& list, size_t limit);
  bool end_file_attribute();
  [[nodiscard]] Result<> check() const;
  [[nodiscard]] Result<> check_node(size_t index) const;

  std::string_view text_;
  const SymbolLimits& limits_;
  SymbolFile file_;
  std::vector<Place> path_;
  std::string field_;                                // the key that was read last, whose value follows
  std::vector<std::string> top_seen_, fields_seen_;  // keys of the file, and of the current node or list of attributes
  std::vector<uint32_t> numbers_;                    // numbers of the current entry
  std::vector<uint32_t> variables_;
  size_t row_pointers_ = 0, inputs_ = 0, attributes_ = 0;
  bool has_version_ = false, has_param_ = false;
  std::optional<Error> error_;
};

std::string SymbolHandler::where() const {
  if (std::ranges::find(path_, Place::kNode) == path_.end()) return "";
  const std::string& name = file_.nodes.back().name;
  const std::string number = fmt::format("node {}", file_.nodes.size() - 1);
  return name.empty() ? number + ": " : fmt::format("{} ('{}'): ", number, printable(name));
}

bool SymbolHandler::number_integer(number_integer_t value) {
  if (value == -1 && inside(Place::kNode, "backward_source_id")) return true;
  if (value < 0) return refuse("{} is negative", value);
  return number_unsigned(static_cast<number_unsigned_t>(value));
}

bool SymbolHandler::number_unsigned(number_unsigned_t value) {
  if (inside(Place::kNode, "backward_source_id")) return true;
  if (value > std::numeric_limits<int32_t>::max()) return refuse("{} is too large", value);
  const auto number = static_cast<uint32_t>(value);
  if (inside(Place::kRowPointers)) {
    return ++row_pointers_ <= limits_.nodes + 1 || refuse("'node_row_ptr' has more than {} numbers", limits_.nodes + 1);
  }
  if (inside(Place::kVariables)) {
    variables_.push_back(number);
    return variables_.size() <= limits_.nodes || refuse("'arg_nodes' has more than {} numbers", limits_.nodes);
  }
  if (!inside(Place::kEntry) && !inside(Place::kHead) && !inside(Place::kFileAttribute)) return unexpected("a number");
  numbers_.push_back(number);
  return numbers_.size() <= 3 || refuse("an entry has more than three integers");
}

bool SymbolHandler::check_text(const std::string& value, size_t bytes_max) {
  if (value.size() > bytes_max)
    return refuse("a string has {} bytes, but at most {} are allowed", value.size(), bytes_max);
  const auto is_control = [](unsigned char c) {
    return (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
  };
  return std::ranges::none_of(value, is_control) || refuse("the string '{}' has a control character", printable(value));
}

bool SymbolHandler::string(string_t& value) {
  if (inside(Place::kAttributes)) {
    if (!check_text(value, field_ == "__init__" ? limits_.init_text : limits_.text)) return false;
    file_.nodes.back().attributes[field_] = std::move(value);
    return true;
  }
  if (inside(Place::kFileAttribute)) {
    return value == "int" ||
           refuse("the file's attribute '{}' has the type '{}', but must be an int", field_, printable(value));
  }
  if (!inside(Place::kNode, "op") && !inside(Place::kNode, "name")) return unexpected("a text");
  if (!check_text(value, limits_.text)) return false;
  if (value.empty()) return refuse("'{}' is empty", field_);
  FileNode& node = file_.nodes.back();
  (field_ == "op" ? node.op : node.name) = std::move(value);
  return true;
}

bool SymbolHandler::start_object(size_t) {
  if (path_.empty()) return enter(Place::kTop);
  if (inside(Place::kNodes)) return begin_node();
  if (inside(Place::kNode, "attrs") || inside(Place::kNode, "attr") || inside(Place::kNode, "param")) {
    has_param_ = has_param_ || field_ == "param";
    return enter(Place::kAttributes);
  }
  if (inside(Place::kTop, "attrs")) return enter(Place::kFileAttributes);
  return unexpected("an object");
}

bool SymbolHandler::key(string_t& name) {
  field_ = name;
  if (inside(Place::kTop)) return known_key(name, kTopKeys);
  if (inside(Place::kNode)) return known_key(name, kNodeKeys);
  if (inside(Place::kFileAttributes)) return known_key(name, kFileAttributeKeys);
  return attribute_key(name);
}

bool SymbolHandler::known_key(const std::string& name, Keys keys) {
  if (std::ranges::find(keys, name) == keys.end()) {
    return refuse("the key '{}' is unknown; the known keys are {}", printable(name), fmt::join(keys, ", "));
  }
  std::vector<std::string>& seen = inside(Place::kTop) ? top_seen_ : fields_seen_;
  if (std::ranges::find(seen, name) != seen.end()) return refuse("the key '{}' occurs twice", name);
  seen.push_back(name);
  return true;
}

bool SymbolHandler::attribute_key(const std::string& name) {
  const Attributes& attributes = file_.nodes.back().attributes;
  if (!check_text(name, limits_.text)) return false;
  if (attributes.contains(name)) return refuse("the attribute '{}' occurs twice", printable(name));
  if (attributes.size() == limits_.attributes) return refuse("a node has more than {} attributes", limits_.attributes);
  const size_t total = 4 * limits_.nodes;
  if (++attributes_ > total) return refuse("the file has more than {} attributes", total);
  return true;
}

bool SymbolHandler::begin_node() {
  if (file_.nodes.size() == limits_.nodes) return refuse("the file has more than {} nodes", limits_.nodes);
  file_.nodes.emplace_back();
  fields_seen_.clear();
  return enter(Place::kNode);
}

bool SymbolHandler::end_node() {
  for (const std::string_view needed : {"op", "name", "inputs"}) {
    if (std::ranges::find(fields_seen_, needed) == fields_seen_.end()) return refuse("the key '{}' is missing", needed);
  }
  file_.nodes.back().attributes.shrink_to_fit();
  return leave();
}

// Leaves an object or a list. From here on, the key is one of the enclosing object.
bool SymbolHandler::leave() {
  path_.pop_back();
  return true;
}

bool SymbolHandler::end_object() {
  return inside(Place::kNode) ? end_node() : leave();
}

bool SymbolHandler::start_array(size_t) {
  if (inside(Place::kInputs) || inside(Place::kHeads) || inside(Place::kFileAttributes)) {
    numbers_.clear();
    return enter(inside(Place::kInputs) ? Place::kEntry : inside(Place::kHeads) ? Place::kHead : Place::kFileAttribute);
  }
  if (inside(Place::kTop, "nodes")) return enter(Place::kNodes);
  if (inside(Place::kTop, "arg_nodes")) return enter(Place::kVariables);
  if (inside(Place::kTop, "node_row_ptr")) return enter(Place::kRowPointers);
  if (inside(Place::kTop, "heads")) return enter(Place::kHeads);
  if (inside(Place::kNode, "inputs")) return enter(Place::kInputs);
  if (inside(Place::kNode, "control_deps")) return enter(Place::kControl);
  return unexpected("a list");
}

bool SymbolHandler::end_array() {
  if (inside(Place::kEntry)) {
    const size_t total = 16 * limits_.nodes;
    if (++inputs_ > total) return refuse("the nodes of the file have more than {} inputs together", total);
    return end_entry(file_.nodes.back().inputs, limits_.inputs);
  }
  if (inside(Place::kHead)) return end_entry(file_.heads, limits_.heads);
  if (inside(Place::kFileAttribute)) return end_file_attribute();
  return leave();
}

// Ends an entry. In files from before MXNet 0.9, entries have no version.
bool SymbolHandler::end_entry(std::vector<FileEntry>& list, size_t limit) {
  if (numbers_.size() < 2) return refuse("an entry has {} integers, but must have two or three", numbers_.size());
  if (list.size() == limit) return refuse("a list has a list has more than {} entries", limit);
  list.push_back({numbers_[0], numbers_[1], numbers_.size() == 3 ? numbers_[2] : 0});
  return leave();
}

bool SymbolHandler::end_file_attribute() {
  if (numbers_.size() != 1) return refuse("the file's attribute '{}' must be [\"int\", NUMBER]", field_);
  if (field_ == "mxnet_version") {
    file_.version = numbers_[0];
    has_version_ = true;
  } else {
    file_.numpy_shapes = numbers_[0] != 0;
  }
  return leave();
}

bool SymbolHandler::parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
  const std::string_view before = text_.substr(0, std::min(position, text_.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  return refuse("line {} is not valid JSON, at byte {} of {}", line, position, text_.size());
}

Result<SymbolFile> SymbolHandler::take() {
  file_.is_from_before_0_9 = has_param_ || !has_version_;
  DT_TRY_VOID(check());
  return std::move(file_);
}

Result<> SymbolHandler::check() const {
  for (const std::string_view needed : {"nodes", "arg_nodes", "heads"}) {
    if (std::ranges::find(top_seen_, needed) == top_seen_.end()) {
      return fail(Code::kData, "the key '{}' is missing", needed);
    }
  }
  std::vector<uint32_t> expected;
  for (size_t i = 0; i < file_.nodes.size(); i++) {
    DT_TRY_VOID(check_node(i));
    if (is_variable(file_.nodes[i])) expected.push_back(static_cast<uint32_t>(i));
  }
  if (variables_ != expected) {
    return fail(Code::kData, "'arg_nodes' must list the nodes with the operator 'null', of which there are {}",
                expected.size());
  }
  if (file_.heads.empty()) return fail(Code::kData, "'heads' is empty");
  for (const FileEntry& head : file_.heads) {
    if (head.node < file_.nodes.size()) continue;
    return fail(Code::kData, "'heads' contains node {}, but the file has {} nodes", head.node, file_.nodes.size());
  }
  return {};
}

Result<> SymbolHandler::check_node(size_t index) const {
  const FileNode& node = file_.nodes[index];
  if (is_variable(node) && !node.inputs.empty()) {
    return fail(Code::kData, "node {} ('{}') is a variable, but has inputs", index, printable(node.name));
  }
  for (size_t i = 0; i < node.inputs.size(); i++) {
    if (node.inputs[i].node < index) continue;
    return fail(Code::kData, "node {} ('{}'): input {} is node {}, which does not come before it", index,
                printable(node.name), i, node.inputs[i].node);
  }
  return {};
}

}  // namespace

Result<SymbolFile> parse_symbol_file(std::string_view text, const SymbolLimits& limits) {
  if (text.size() > limits.bytes) {
    return fail(Code::kData, "the file has {} bytes, but a symbol file has at most {}", text.size(), limits.bytes);
  }
  SymbolHandler handler(text, limits);
  if (!nlohmann::json::sax_parse(text, &handler)) return tl::unexpected<Error>(handler.error());
  return handler.take();
}

}  // namespace dtrain::graph
