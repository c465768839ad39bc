// Identifies this build. All peers of a job must have the same build, unless --allow-mixed-builds is given.
#pragma once

#include <string_view>

namespace dtrain::job {

std::string_view version();  // the version of dtrain: "0.9.0"
// Version and commit: "0.9.0-e53c218a6f01"; "+" is appended if files differed from that commit.
std::string_view build_id();

}  // namespace dtrain::job
