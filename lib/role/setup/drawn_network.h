// A network as TensorBoard draws it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "observe/tensorboard/events.h"
#include "role/setup/network.h"

namespace dtrain::role {

// All nodes in the order in which they are computed, and before each the parameters and labels that it is the first to
// read. A node's attributes are those of the symbol file. `device`: "cpu(0)".
std::vector<observe::GraphNode> drawn_network(const Network& network, const std::string& device);

// Names of units become groups: "stage1_unit2_conv1" is drawn as "stage1/unit2/conv1". A node without a name of its own, such
// as "_plus0", is drawn in the group of its first input. Characters that TensorBoard gives a
// meaning become underscores.
std::string drawn_name(std::string_view name);

}  // namespace dtrain::role
