// What an exported file says about the images that its network reads and the classes that it names. See
// docs/formats.md, "Exported models".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "infer/trained_model.h"

namespace dtrain::infer {

// `class_names`: by label; empty: not known. What the model's files do not tell is left out.
std::map<std::string, std::string> export_metadata(const TrainedModel& model,
                                                   const std::vector<std::string>& class_names);

}  // namespace dtrain::infer
