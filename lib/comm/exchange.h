// How the ranks of a group find each other before it is there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::comm {

// Gives my bytes and gets everybody's, by rank, mine among them; ends in a bounded time. How: the caller's business.
// Between processes the scheduler carries them; threads of one process hand them over. What it returns is checked, as
// all that peers say.
using Exchange = std::function<Result<std::vector<std::string>>(std::string mine)>;

}  // namespace dtrain::comm
