// `dtrain report`: one self-contained HTML page about one or several runs, without scripts or other files.
#pragma once

#include <span>
#include <string>

#include "observe/runs/run.h"

namespace dtrain::observe {

// `made_by`: the text at the foot of the page, such as the version of the program.
std::string report_page(std::span<const Run> runs, const std::string& made_by);

}  // namespace dtrain::observe
