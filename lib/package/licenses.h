// The license texts of packed libraries. They are found where Debian and its derivatives install them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "package/libraries.h"
#include "proc/signal_queue.h"

namespace dtrain::package {

struct LicenseFile {
  std::string name;  // name of the text in the package: "zlib1g/copyright", "common-licenses/GPL-3"
  std::string path;  // path on this host
};

struct Licenses {
  // The license texts, also those of header-only libraries if the program was built on this host.
  std::vector<LicenseFile> files;
  std::string table;  // one line for each library: its name, and the name and version of its Debian package
  std::vector<std::string> missing;  // libraries for which no license text was found
};

// Uses dpkg to find the Debian package of each library. If there is no dpkg, all texts are missing. Code::kPreempted: a
// signal arrived.
Result<Licenses> find_licenses(const std::vector<Library>& libraries, proc::SignalQueue& signals);

// The names of the texts in /usr/share/common-licenses to which a copyright file refers, each of them once.
std::vector<std::string> common_licenses_in(const std::string& copyright);

}  // namespace dtrain::package
