// The flags of augmentation that say something together: bundles, ranges, and what excludes what.
#pragma once

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

// Unpacks --aug-level and --use-imagenet-data-augmentation (formats.md 3.9) into the flags that they stand for, but for
// those that were given where the bundle was or at a place that counts more; then checks all of them. Code::kUsage.
Result<> resolve_augmentation(Flags& flags);

// Width by height, as --min-random-aspect-ratio and --max-random-aspect-ratio say: the first alone decides whether the
// second is a bound or a distance from 1.
struct AspectRange {
  double min, max;
};
AspectRange aspect_range(const AugmentFlags& augment);

}  // namespace dtrain::job
