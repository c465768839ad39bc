// The shared libraries that this program needs on another host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::package {

struct Library {
  std::string name;  // by which others need it: "libz.so.1"
  std::string path;
};

// True for the libraries of glibc. They are left to the host: they belong to its kernel, its loader and its name
// services, and the loader, whose path is fixed in the executable, works only with the libc of its own build.
bool belongs_to_glibc(std::string_view name);

// The libraries that are loaded in this process, without those of glibc, in alphabetical order. The loader of this very
// process has found them, with this host's cache, paths and alternatives; also those that libraries open by
// themselves. In place of a variant for newer processors (glibc-hwcaps) it names the plain one.
std::vector<Library> loaded_libraries();

}  // namespace dtrain::package
