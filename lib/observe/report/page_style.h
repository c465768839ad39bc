// The style sheet of a report.
#pragma once

#include <string>

namespace dtrain::observe {

// Light or dark according to the reader's device, readable on a phone, and suitable for printing.
std::string report_style();

}  // namespace dtrain::observe
