#include "base/module.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace dtrain {
namespace {

std::string last_error() {
  const char* const text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

}  // namespace

Result<void*> load_module(const Module& module, const std::string& path) {
  // RTLD_NOW resolves all symbols immediately, so that a missing symbol is found here, not during the work.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = last_error();  // the text of the error begins with the name of the missing file
    const bool is_absent = reason.starts_with(path + ": cannot open shared object file: No such file");
    return fail(Code::kStartup, "{} the module for {}: {}; {}",
                is_absent ? "this build of dtrain does not have" : "cannot load", module.use, reason, module.remedy);
  }
  void* const entry = ::dlsym(library, module.entry);
  if (entry == nullptr) return fail(Code::kStartup, "{} is not a module of dtrain: {}", path, last_error());
  return entry;
}

}  // namespace dtrain
