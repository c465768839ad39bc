// The contents of this program's package. `dtrain package` writes the package as an archive, and --sync-dst-dir copies
// it to the hosts of a job. The layout is described in docs/formats.md, "Packages".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "proc/signal_queue.h"

namespace dtrain::package {

struct PackedFile {
  std::string name;         // path in the package: "lib/dtrain/libz.so.1"
  std::string source = {};  // the file on this host; empty: `content` is the content
  std::string content = {};
  bool executable = false;
  uint64_t bytes = 0;
};

struct Contents {
  std::string name;  // name of the directory: "dtrain-0.9.0-x86_64"
  std::string build_id = {};
  std::string glibc = {};              // the oldest version of glibc with which the package works: "2.34"
  std::vector<PackedFile> files = {};  // the packed files, sorted by name
  std::string manifest = {};           // the manifest of the unpacked package that the files come from; otherwise empty
  std::vector<std::string> libraries = {};  // names of the packed libraries: "libz.so.1"
  // Libraries that a host with GPUs must have itself; empty if the package does not support GPUs.
  std::vector<std::string> gpu_libraries = {};
  std::vector<std::string> without_license = {};  // libraries whose license texts were not found
  std::vector<std::string> left_out = {};  // for each module of this program that is not in the package, the reason

  [[nodiscard]] uint64_t bytes() const;
};

inline constexpr const char* kManifest = "MANIFEST";
// The path in which the packed executable searches for its libraries (cmd/meson.build).
inline constexpr const char* kPackedSearchPath = "$ORIGIN/../lib/dtrain";

// Determines the contents. `executable`: the path of this program. If it was unpacked from a package, the contents are
// those of that package. Code::kData if a library cannot be packed, or if files of the unpacked package have been
// changed; kPreempted: a signal arrived.
Result<Contents> package_contents(const std::string& executable, proc::SignalQueue& signals);

}  // namespace dtrain::package
