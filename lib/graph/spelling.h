// How a symbol file spells a node. Two files may describe one network with different texts, for example with "(3, 3)" or
// "(3,3)", or with or without attributes that have their default values. A graph that was read from a file keeps the
// texts, so that the same file is written again.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace dtrain::graph {

using Attributes = std::map<std::string, std::string, std::less<>>;  // MXNet sorts the keys

struct Spelling {
  // MXNet's name of the operator if dtrain has one operator for several of MXNet's, such as "relu" or "broadcast_add".
  // Empty: the usual name.
  std::string op = {};
  // All attributes, with their texts. Nullopt: those that differ from MXNet's default values.
  std::optional<Attributes> attributes = {};
  // The version of entries that refer to statistics: 1, or 0 in files from before MXNet 0.9.
  unsigned statistic_version = 1;
};

}  // namespace dtrain::graph
