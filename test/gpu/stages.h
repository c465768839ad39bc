// The parts of each stage. The machine and the settings must outlive them.
#pragma once

#include <vector>

#include "parts.h"
#include "settings.h"

namespace dtrain::gpu {

// The most informative checks that fit into two minutes: convolutions in a graph, pixels through the loaded module, a
// training, two rates, and where the time of a step goes.
std::vector<Part> quick_parts(Machine& machine, const Settings& settings);
// Five convolutions and a residual unit of ResNet in float16, compared with the reference, plain and captured. In the
// unit, convolutions add to other tensors.
std::vector<Part> convolution_parts(Machine& machine);
// Every operator case of test/exec/cases.h, in every type: node by node against the reference; then fused, captured and
// repeated.
std::vector<Part> ops_parts(Machine& machine);
// Small cases, for tools under which everything takes a hundred times as long.
std::vector<Part> small_parts(Machine& machine);
// Every network, those that are cheapest for the reference first: node by node, and three steps of SGD.
std::vector<Part> nets_parts(Machine& machine);
// The speed of the large networks in float16; two networks that learn real images; then the other types.
std::vector<Part> train_parts(Machine& machine, const Settings& settings);
// Images/s of a ResNet with 50 layers in float16, batch 256.
Part rate_part(Machine& machine, const std::string& network);
// How fast memory is copied.
std::vector<Part> copies_parts(Machine& machine);

}  // namespace dtrain::gpu
