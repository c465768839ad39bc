// The names of classes, indexed by label, from synset.txt, which has one line per class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::role {

// The name of each class. If a line begins with an id such as n01440764, as in ImageNet's synset.txt, the name is the
// rest of the line. Code::kNotFound if there is no such file.
Result<std::vector<std::string>> read_class_names(const std::string& path);

// The names from the first of these directories whose synset.txt has one name for each class; empty if there is none. A
// file with another number of names may be about something else: it is mentioned in the log and not used.
Result<std::vector<std::string>> class_names_in(const std::vector<std::string>& directories, int64_t classes,
                                                const Log& log);

}  // namespace dtrain::role
