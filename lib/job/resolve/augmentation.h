// Augmentation flags that depend on each other: bundles, ranges, and flags that exclude each other.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct Flags;
struct AugmentFlags;

// Expands --aug-level and --use-imagenet-data-augmentation into the flags that they set. A flag keeps its own value if
// it was given in the same source as the bundle or in a stronger one. Then checks all flags of augmentation.
// Code::kUsage for a value out of range and for flags that exclude each other.
Result<> resolve_augmentation(Flags& flags);

// Hints for the user about flags that have no effect. MXNet's scripts accept them silently, so dtrain accepts them too.
std::vector<std::string> augmentation_notes(const AugmentFlags& augment);

// The range that --min-random-aspect-ratio and --max-random-aspect-ratio give for the factor on the aspect ratio or,
// with --random-resized-crop, for the aspect ratio of the crops: [min, max] if the minimum is set, else [1 - max, 1 +
// max].
struct AspectRange {
  double min, max;
};
AspectRange aspect_range(const AugmentFlags& augment);

}  // namespace dtrain::job
