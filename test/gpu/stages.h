// The parts of each stage. The machine and the settings outlive them.
#pragma once

#include <vector>

#include "parts.h"
#include "settings.h"

namespace dtrain::gpu {

// Every operator case of exec/cases.h, in every type: node by node against the reference; fused, captured and again.
std::vector<Part> ops_parts(Machine& machine);
// Small ones of them, for tools under which everything takes a hundred times as long.
std::vector<Part> small_parts(Machine& machine);
// Every network, cheapest for the reference first: node by node, and three steps of SGD.
std::vector<Part> nets_parts(Machine& machine);
// Two networks learn real pictures; then how fast the large ones are.
std::vector<Part> train_parts(Machine& machine, const Settings& settings);
// How fast memory is copied.
std::vector<Part> copies_parts(Machine& machine);

}  // namespace dtrain::gpu
