// The contents of this program's package: `dtrain package` writes it as an archive, and --sync-dst-dir copies it to the
// hosts of a job. docs/formats.md, "Packages", describes the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "proc/signal_queue.h"

namespace dtrain::package {

struct PackedFile {
  std::string name;         // path in the package: "lib/dtrain/libz.so.1"
  std::string source = {};  // the file on this host; empty: `content` is the whole file
  std::string content = {};
  bool executable = false;
  uint64_t bytes = 0;
};

struct Contents {
  std::string name;  // name of the directory: "dtrain-0.9.0-x86_64"
  std::string build_id = {};
  std::string glibc = {};                   // the oldest version of glibc that it runs with: "2.34"
  std::vector<PackedFile> files = {};       // sorted by name
  std::string manifest = {};                // if the files come from an unpacked package: its manifest; otherwise empty
  std::vector<std::string> libraries = {};  // "libz.so.1"
  std::vector<std::string> gpu_libraries = {};  // libraries that a host with GPUs must have; empty: the package has no
                                                // part for GPUs
  std::vector<std::string> without_license = {};  // libraries whose license texts were not found
  std::vector<std::string> left_out = {};         // why a module of this program is not in the package

  [[nodiscard]] uint64_t bytes() const;
};

inline constexpr const char* kManifest = "MANIFEST";
// The path on which the executable searches for its libraries (cmd/meson.build).
inline constexpr const char* kPackedSearchPath = "$ORIGIN/../lib/dtrain";

// `executable`: the path of this program. If it was unpacked from a package, the contents are that package's.
// Code::kData if a library cannot be packed, or if files of the unpacked package have changed; kPreempted: a signal
// arrived.
Result<Contents> package_contents(const std::string& executable, proc::SignalQueue& signals);

}  // namespace dtrain::package
