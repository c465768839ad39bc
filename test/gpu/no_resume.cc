// gpu-check trains only from new weights. It is linked without the flags of jobs, which a trainer compares when it
// resumes from a checkpoint.
#include "base/error.h"
#include "job/spec/job_spec.h"

namespace dtrain::job {

std::vector<std::string> differing_keys(std::string_view, std::string_view) {
  DT_CHECK(false, "gpu-check resumes from no checkpoint");
  return {};
}

}  // namespace dtrain::job
