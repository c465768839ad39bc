// The metadata of an exported file: which images its network expects, and the names of its classes. See
// docs/formats.md, "Exported models".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "infer/trained_model.h"

namespace dtrain::infer {

// `class_names`: indexed by label; empty: unknown. Facts that the files of the model do not contain are left out.
std::map<std::string, std::string> export_metadata(const TrainedModel& model,
                                                   const std::vector<std::string>& class_names);

}  // namespace dtrain::infer
