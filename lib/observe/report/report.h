// `dtrain report`: one HTML page about one or several runs that needs nothing else, neither scripts nor other files.
#pragma once

#include <span>
#include <string>

#include "observe/runs/run.h"

namespace dtrain::observe {

// `made_by`: what the foot of the page says, such as the version of the program.
std::string report_page(std::span<const Run> runs, const std::string& made_by);

}  // namespace dtrain::observe
