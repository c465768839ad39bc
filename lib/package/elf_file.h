// The dynamic section of an ELF file for x86-64: which libraries it needs, and where the loader searches for them. The
// file may be broken; no byte of it is trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::package {

struct DynamicSection {
  std::vector<std::string> needed;  // DT_NEEDED: "libz.so.1"
  std::string search_path;          // DT_RPATH or DT_RUNPATH; empty: none
  std::vector<int> glibc;           // the latest version of glibc whose symbols it uses: {2, 34}; empty: none
};

// `name` is for messages. Code::kData: not an ELF file for x86-64 with a dynamic section, or a broken one.
Result<DynamicSection> read_dynamic_section(std::string_view file, const std::string& name);

// Makes the loader search only in `path`, which must be a suffix of the file's present search path, because strings
// cannot be added to a finished file. An empty `path` removes the search path. Does nothing if there is none to remove.
Result<> set_search_path(std::string& file, const std::string& path, const std::string& name);

}  // namespace dtrain::package
