// The prefix of a log line: when it was written, and by which process (docs/formats.md, "Log lines").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dtrain {

// A line's prefix: "2016-05-12 10:11:12,345 Node[0] ", possibly after a launcher's prefix, or "INFO:root:".
struct SplitLine {
  std::optional<double> time;  // seconds since 1970, computed as if the writer's clock showed UTC
  size_t begin = 0;            // where the prefix begins in the line, if it has both a time and a node
  std::string_view node;  // the node that wrote the line: "0", "server 1", "scheduler"; empty if the line has no node
  std::optional<int64_t> rank;  // the rank, if the node is a worker
  std::string_view text;        // the text after the prefix
};
SplitLine split_log_line(std::string_view line);

}  // namespace dtrain
