// The style sheet of a report.
#pragma once

#include <string>

namespace dtrain::observe {

// Light or dark as the reader's device is, readable on a phone, and made for paper too.
std::string report_style();

}  // namespace dtrain::observe
