// The entries of TensorBoard's event files, each as the bytes of one message (proto/tensorboard.proto).
#pragma once

#include <cstdint>
#include <span>
#include <string>

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

}  // namespace dtrain::observe
