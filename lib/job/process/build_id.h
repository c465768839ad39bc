// Identifies this build. All peers of a job must have the same build, unless --allow-mixed-builds is given.
#pragma once

#include <string_view>

namespace dtrain::job {

std::string_view version();   // "0.9.0"
std::string_view build_id();  // "0.9.0-e53c218a6f01"; "+" is appended if files differed from that commit

}  // namespace dtrain::job
