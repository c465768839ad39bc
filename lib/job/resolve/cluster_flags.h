// Checks the flags with which a job requests resources from a batch system, YARN or Kubernetes.
#pragma once

#include "base/error.h"

namespace dtrain::job {

struct Flags;

// Code::kUsage: a flag of the command line is for another system than the one that --launcher names, or one that the
// system needs is missing.
Result<> check_cluster_flags(const Flags& flags);

}  // namespace dtrain::job
