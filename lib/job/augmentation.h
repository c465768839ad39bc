// The flags of augmentation that say something together: bundles, ranges, and what excludes what.
#pragma once

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

// Expands --aug-level and --use-imagenet-data-augmentation into the flags that they stand for. A flag keeps its own
// value if it was given in the same source as the bundle or in a stronger one. Then checks all flags of augmentation;
// fails with Code::kUsage.
Result<> resolve_augmentation(Flags& flags);

// Width by height, as --min-random-aspect-ratio and --max-random-aspect-ratio say: the first alone decides whether the
// second is a bound or a distance from 1.
struct AspectRange {
  double min, max;
};
AspectRange aspect_range(const AugmentFlags& augment);

}  // namespace dtrain::job
