// The metadata of an exported file: what images its network reads, and what its classes are called. See
// docs/formats.md, "Exported models".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "infer/trained_model.h"

namespace dtrain::infer {

// `class_names`: indexed by label; empty: not known. Facts that the model's files do not contain are left out.
std::map<std::string, std::string> export_metadata(const TrainedModel& model,
                                                   const std::vector<std::string>& class_names);

}  // namespace dtrain::infer
