// The section of a report about classes: how well each class was classified in the latest validation, which classes
// were confused, and the images with the highest loss.
#pragma once

#include <span>
#include <string>

#include "observe/runs/run.h"

namespace dtrain::observe {

// Returns the section; empty if no run has written such results.
std::string class_section(std::span<const Run> runs);

}  // namespace dtrain::observe
