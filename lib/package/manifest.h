// The text of a package's MANIFEST: a description of the package, and a checksum for each of its files. `sha256sum
// --check MANIFEST` can also read it. See docs/formats.md, "Packages".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::package {

struct Manifest {
  std::string name;  // name of the package: "dtrain-0.9.0-x86_64"
  std::string build_id;
  std::string glibc;  // the oldest version of glibc with which the package works: "2.34"
  std::vector<std::string> gpu_libraries;
  std::map<std::string, std::string> checksums;  // for each file name, 64 hexadecimal digits
};

std::string manifest_text(const Manifest& manifest);

// Code::kData: a line is malformed, a name leads out of the package, or an entry is missing.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace dtrain::package
