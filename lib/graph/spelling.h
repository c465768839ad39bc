// How a symbol file spells a node. Two files may describe one network with different texts, for example with "(3, 3)"
// or "(3,3)", or with or without attributes that have their default values. A graph that was read from a file keeps the
// texts, so that the same file is written again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::graph {

// The attributes of a node: texts sorted by key, as MXNet sorts them. They are in a vector, because a file of unknown
// origin may have half a million attributes, and a map would take almost twice as much memory for each.
class Attributes {
 public:
  using Attribute = std::pair<std::string, std::string>;
  using Iterator = std::vector<Attribute>::const_iterator;

  [[nodiscard]] Iterator begin() const { return sorted_.begin(); }
  [[nodiscard]] Iterator end() const { return sorted_.end(); }
  [[nodiscard]] bool empty() const { return sorted_.empty(); }
  [[nodiscard]] size_t size() const { return sorted_.size(); }
  [[nodiscard]] Iterator find(std::string_view key) const;  // returns end() if the key does not exist
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != end(); }
  bool operator==(const Attributes&) const = default;

  // Returns the text of the key; adds an empty text if the key does not exist.
  std::string& operator[](std::string key);
  void try_emplace(std::string key, std::string text);  // adds an attribute; does nothing if the key exists
  void insert(Attribute attribute) { try_emplace(std::move(attribute.first), std::move(attribute.second)); }
  // Calls `should_go` for all attributes in order, and removes those for which it returns true. `should_go` may move
  // the text of such an attribute away.
  template <class Function>
  void remove_if(Function should_go) {
    auto kept = sorted_.begin();
    for (auto place = sorted_.begin(); place != sorted_.end(); ++place) {
      if (should_go(*place)) continue;
      if (kept != place) *kept = std::move(*place);
      ++kept;
    }
    sorted_.erase(kept, sorted_.end());
  }
  void shrink_to_fit() { sorted_.shrink_to_fit(); }

 private:
  std::vector<Attribute> sorted_;
};

struct Spelling {
  // MXNet's name of the operator, if one operator of dtrain corresponds to several of MXNet's, such as "relu" or
  // "broadcast_add". Empty: the usual name.
  std::string op = {};
  // The name in the file, if several nodes have that name and this node was therefore renamed. Empty: the node's own
  // name.
  std::string name = {};
  // All attributes with their texts. Nullopt: only the attributes that differ from MXNet's default values are written.
  std::optional<Attributes> attributes = {};
  // The version in entries that refer to statistics: 1, or 0 in files from before MXNet 0.9.
  unsigned statistic_version = 1;
};

}  // namespace dtrain::graph
