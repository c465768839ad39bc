// Which build this is: peers of one job have the same one, unless --allow-mixed-builds (R-F11).
#pragma once

#include <string_view>

namespace dtrain::job {

std::string_view version();   // "0.1.0"
std::string_view build_id();  // "0.1.0-e53c218a6f01", with "+" behind it if files differed from that commit

}  // namespace dtrain::job
