// The entries of TensorBoard's event files, each encoded as one message (proto/tensorboard.proto).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dtrain::observe {

struct EventTime {
  double wall_s = 0;  // seconds since 1970, UTC
  uint64_t step = 0;
};

// The first event of every file.
std::string version_event(double wall_s);
// Declares that events in older files of the directory are void from this step on.
std::string start_event(const EventTime& time);

struct Scalar {
  std::string tag;               // "train/accuracy": TensorBoard groups tags by the part before the slash
  double value = 0;              // written as float32
  std::string description = {};  // Markdown; TensorBoard keeps the first description of a tag
};
std::string scalars_event(const EventTime& time, std::span<const Scalar> scalars);

}  // namespace dtrain::observe
