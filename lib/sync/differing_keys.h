// Compares the texts of two processes' jobs, whose lines are "key = value".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::sync::membership {

// The keys of the lines "key = value" on which a joiner disagrees with the job, each with both values: "batch_size
// (job: 64, here: 32)". A key that only one side has counts as different. The joiner's value "auto" agrees with
// anything.
std::vector<std::string> differing_keys(std::string_view job_text, std::string_view joiner_text);

}  // namespace dtrain::sync::membership
