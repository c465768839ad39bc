// The modules: parts of the program in separate shared libraries, which are loaded when they are first used. The
// libraries that they depend on would make every process start more slowly, or may be missing on a host. The loader
// searches for modules where it searches for the program's libraries (cmd/meson.build). Module and program must be from
// the same build.
#pragma once

#include <string>

#include "base/error.h"

namespace dtrain {

struct Module {
  const char* file;
  const char* entry;   // the symbol with C linkage through which the program uses the module
  const char* use;     // the module's purpose, as in "the part for GPUs"
  const char* remedy;  // what a user can do if the module cannot be loaded
};

inline constexpr Module kCudaModule{.file = "dtrain_cuda.so",
                                    .entry = "dtrain_make_device_module",
                                    .use = "GPUs",
                                    .remedy = "without GPUs, leave out --gpus"};
inline constexpr Module kChartsModule{.file = "dtrain_charts.so",
                                      .entry = "dtrain_charts_module",
                                      .use = "charts as PNG",
                                      .remedy = "install Cairo (Debian: libcairo2), or write an SVG file"};
inline constexpr Module kWebModule{.file = "dtrain_web.so",
                                   .entry = "dtrain_web_module",
                                   .use = "downloads and web services",
                                   .remedy = "install libcurl (Debian: libcurl4)"};

// Returns the address of the module's entry. Loads the file `path`; if the path has no slash, the loader searches for
// the file. A module stays loaded until the process ends. Code::kStartup if the file or a library that it needs is
// missing; the message names it.
Result<void*> load_module(const Module& module, const std::string& path);

// Calls load_module for a module whose entry is a constant of the type Table, and returns this constant.
template <class Table>
Result<const Table*> load_module(const Module& module) {
  DT_TRY(void* const entry, load_module(module, module.file));
  return static_cast<const Table*>(entry);
}

}  // namespace dtrain
