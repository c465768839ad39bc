// The optimiser's state of a checkpoint, put beside the parameters that it belongs to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvstore/store.h"

namespace dtrain::kvstore {

// By parameter, by slot: the values, borrowed from `state`. Nothing if the state has no arrays: all slots are zero
// then. Code::kData names an array that is missing or of another size.
using SlotSpans = std::vector<std::vector<std::span<const float>>>;
Result<SlotSpans> match_state(const TrainingState& state, const ParameterView& view,
                              std::span<const std::string> slots);

// "PARAMETER:SLOT"
std::string slot_name(const ParameterSpan& parameter, const std::string& slot);

}  // namespace dtrain::kvstore
