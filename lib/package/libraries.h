// The shared libraries that this program needs on another host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::package {

struct Library {
  std::string name;  // the name by which other files need it: "libz.so.1"
  std::string path;
};

// True for the libraries of glibc. They are not packed: they belong to the host's kernel, loader and name services, and
// the loader, whose path is fixed in the executable, works only with the libc of the same build.
bool belongs_to_glibc(std::string_view name);

// The libraries that are loaded in this process, without those of glibc, in alphabetical order. The loader of this
// process has found them, with this host's cache, paths and alternatives; they include those that libraries load
// themselves. A variant for newer processors (glibc-hwcaps) is replaced by the plain one.
std::vector<Library> loaded_libraries();

}  // namespace dtrain::package
