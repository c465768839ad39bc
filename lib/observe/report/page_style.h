// The style sheet of a report.
#pragma once

#include <string>

namespace dtrain::observe {

// Light or dark as the reader's device asks for, readable on a phone, and suitable for printing.
std::string report_style();

}  // namespace dtrain::observe
