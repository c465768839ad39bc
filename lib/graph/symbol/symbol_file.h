// The content of an MXNet symbol file: nodes, attributes and references, without their meaning. docs/formats.md,
// "Symbol files", describes the format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/spelling.h"

namespace dtrain::graph {

inline constexpr int64_t kMxnetVersion = 10901;  // 1.9.1: the version in whose form files are written

// A reference to an output of a node: [node, output, version].
struct FileEntry {
  uint32_t node = 0, output = 0, version = 0;
  bool operator==(const FileEntry&) const = default;
};

struct FileNode {
  std::string op;  // name of the node's operator; "null" for a variable
  std::string name;
  Attributes attributes = {};
  std::vector<FileEntry> inputs = {};
  bool operator==(const FileNode&) const = default;
};

struct SymbolFile {
  std::vector<FileNode> nodes;  // the nodes; inputs precede the nodes that read them
  std::vector<FileEntry> heads;
  int64_t version = 800;  // major * 10000 + minor * 100 + patch; files without a version are from 0.8 or before
  bool is_from_before_0_9 = false;  // the file has no version, or has the key "param" of old files
  bool numpy_shapes = false;        // whether the file has "is_np_shape"
  bool operator==(const SymbolFile&) const = default;
};

inline bool is_variable(const FileNode& node) {
  return node.op == "null";
}

// The number of outputs of a node as MXNet 1.9.1 counts them. It includes outputs that only the backward pass reads.
int64_t counted_outputs(const FileNode& node);

// The file's text as MXNet 1.9.1 writes it: its layout, and no newline at the end.
std::string text(const SymbolFile& file);

}  // namespace dtrain::graph
