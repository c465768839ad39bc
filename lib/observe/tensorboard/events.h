// The entries of TensorBoard's event files, each as the bytes of one message (proto/tensorboard.proto).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "observe/tensorboard/value_counts.h"

namespace dtrain::observe {

struct EventTime {
  double wall_s = 0;  // since 1970, UTC
  uint64_t step = 0;
};

// The first event of every file.
std::string version_event(double wall_s);
// What older files of the directory have from this step on is void.
std::string start_event(const EventTime& time);

struct Scalar {
  std::string tag;               // "train/accuracy": TensorBoard shows the tags before the slash as groups
  double value = 0;              // written as float32
  std::string description = {};  // Markdown; TensorBoard keeps the first one of a tag
};
std::string scalars_event(const EventTime& time, std::span<const Scalar> scalars);

// The counts must not be empty.
std::string histogram_event(const EventTime& time, const std::string& tag, const ValueCounts& counts);

struct Png {
  int height = 0, width = 0;
  std::vector<uint8_t> file;
};
std::string picture_event(const EventTime& time, const std::string& tag, const Png& png);

// Shown as Markdown.
std::string text_event(const EventTime& time, const std::string& tag, const std::string& text);

// The network as TensorBoard draws it. A name with slashes belongs to a group, as a file to its folder.
struct GraphNode {
  std::string name;  // unique
  std::string op;    // "Convolution"
  std::string device;
  std::vector<std::string> inputs = {};                              // names of nodes
  std::vector<std::pair<std::string, std::string>> attributes = {};  // "kernel", "(3, 3)"
  std::optional<std::vector<int64_t>> shape = {};                    // of the output; -1 is the batch
};
std::string graph_event(const EventTime& time, std::span<const GraphNode> nodes);

// A hyperparameter of a run.
struct HyperParameter {
  std::string name;
  std::variant<bool, double, std::string> value;
  std::string description = {};
  bool is_chosen = false;  // the user has set it; such columns come first
};
// Which hyperparameters and which scalars the table of all runs has as columns: TensorBoard takes them from one of the
// runs that it shows, so all runs should name the same ones.
std::string experiment_event(const EventTime& time, std::span<const HyperParameter> parameters,
                             std::span<const Scalar> metrics);
std::string session_start_event(const EventTime& time, std::span<const HyperParameter> parameters);
enum class SessionStatus { kSuccess, kFailure };
std::string session_end_event(const EventTime& time, SessionStatus status);

}  // namespace dtrain::observe
