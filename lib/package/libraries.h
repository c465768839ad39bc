// The shared libraries without which this program does not work on another host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::package {

struct Library {
  std::string name;  // the name under which other files refer to it: "libz.so.1"
  std::string path;
};

// True for the libraries of glibc, which are not packed: they must match the host's kernel, loader and name services.
// The path of the loader is fixed in the executable, and a loader works only with the libc of the same build.
bool belongs_to_glibc(std::string_view name);

// The libraries that are loaded in this process, except those of glibc, in alphabetical order. The loader of this
// process has found them with this host's cache, search paths and alternatives; libraries that are loaded by other
// libraries are included. A variant for newer processors (glibc-hwcaps) is replaced by the plain library.
std::vector<Library> loaded_libraries();

}  // namespace dtrain::package
