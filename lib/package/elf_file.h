// The dynamic section of an ELF file for x86-64: which libraries the file needs, and where the loader searches for
// them. The file may be broken, so nothing in it is trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::package {

struct DynamicSection {
  std::vector<std::string> needed;  // DT_NEEDED: "libz.so.1"
  std::string search_path;          // DT_RPATH or DT_RUNPATH; empty if there is neither
  std::vector<int> glibc;  // the latest version of glibc whose symbols are used: {2, 34}; empty if none are used
};

// `name` is for messages. Code::kData: the file is not an ELF file for x86-64 with a dynamic section, or it is broken.
Result<DynamicSection> read_dynamic_section(std::string_view file, const std::string& name);

// Makes the loader search only in `path`. `path` must be a suffix of the file's present search path, because it is not
// possible to add strings to a finished file. An empty `path` removes the search path, if there is one.
Result<> set_search_path(std::string& file, const std::string& path, const std::string& name);

}  // namespace dtrain::package
