// The names of classes, by label: synset.txt, a line for each class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::role {

// Names by class. Takes the rest of a line behind an id such as n01440764, as in ImageNet's synset.txt.
// Code::kNotFound: there is no such file.
Result<std::vector<std::string>> read_class_names(const std::string& path);

// The names in the first of these directories whose synset.txt has one for each class; empty if none has. A file for
// another number of classes may be about something else: the log names it, and it is not used.
Result<std::vector<std::string>> class_names_in(const std::vector<std::string>& directories, int64_t classes,
                                                const Log& log);

}  // namespace dtrain::role
