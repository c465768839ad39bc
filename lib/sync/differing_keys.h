// Compares the job texts of two processes, whose lines are "key = value".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::sync::membership {

// The keys of the lines "key = value" on which a joining process disagrees with the job, each with both values:
// "batch_size (job: 64, here: 32)". A key that only one text has counts as different. The joining process's value
// "auto" agrees with anything.
std::vector<std::string> differing_keys(std::string_view job_text, std::string_view joiner_text);

}  // namespace dtrain::sync::membership
