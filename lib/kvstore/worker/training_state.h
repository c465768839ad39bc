// Matches the optimizer state of a checkpoint with the parameters that it belongs to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvstore/store.h"

namespace dtrain::kvstore {

// The values of each parameter and slot, borrowed from `state`. Empty if the state has no arrays, which means that all
// slots are zero. Code::kData if an array is missing or has the wrong size; the message names it.
using SlotSpans = std::vector<std::vector<std::span<const float>>>;
Result<SlotSpans> match_state(const TrainingState& state, const ParameterView& view,
                              std::span<const std::string> slots);

// Gives `state` an array for each parameter and slot, in canonical order. The arrays of an earlier call are kept.
void make_slots(TrainingState& state, const ParameterView& view, std::span<const std::string> slots);

// "PARAMETER:SLOT"
std::string slot_name(const ParameterSpan& parameter, const std::string& slot);

}  // namespace dtrain::kvstore
