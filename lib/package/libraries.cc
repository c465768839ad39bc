#include "package/libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace dtrain::package {
namespace {

namespace fs = std::filesystem;

// Maps "/usr/lib/glibc-hwcaps/x86-64-v3/libz.so.1" to "/usr/lib/libz.so.1", if that file exists.
std::string plain_variant(const std::string& path) {
  constexpr std::string_view kVariants = "/glibc-hwcaps/";
  const size_t at = path.find(kVariants);
  if (at == std::string::npos) return path;
  const size_t name = path.find('/', at + kVariants.size());
  if (name == std::string::npos) return path;
  std::string plain = path.substr(0, at) + path.substr(name);
  return fs::exists(plain) ? plain : path;
}

int add_library(dl_phdr_info* object, size_t /*size*/, void* to) {
  auto& libraries = *static_cast<std::vector<Library>*>(to);
  const std::string path = object->dlpi_name;
  if (path.empty() || path.front() != '/') return 0;  // skips the executable and the kernel's vdso
  const std::string name = fs::path(path).filename().string();
  if (!belongs_to_glibc(name)) libraries.push_back({name, plain_variant(path)});
  return 0;
}

// TBB loads its allocator only when it is first used; if the allocator were not packed, it would come from the host.
// TBB also works without its allocator. It looks for further libraries, too, but Debian does not have them.
constexpr const char* kTbb = "libtbb.so.12";
constexpr const char* kTbbAllocator = "libtbbmalloc.so.2";

void load_late_libraries() {
  if (::dlopen(kTbb, RTLD_LAZY | RTLD_NOLOAD) != nullptr) ::dlopen(kTbbAllocator, RTLD_LAZY | RTLD_LOCAL);
}

}  // namespace

bool belongs_to_glibc(std::string_view name) {
  constexpr std::array kNames = {"ld-linux-x86-64.so.2",
                                 "libc.so.6",
                                 "libm.so.6",
                                 "libmvec.so.1",
                                 "libpthread.so.0",
                                 "libdl.so.2",
                                 "librt.so.1",
                                 "libutil.so.1",
                                 "libresolv.so.2",
                                 "libanl.so.1",
                                 "libnsl.so.1",
                                 "libBrokenLocale.so.1",
                                 "libthread_db.so.1",
                                 "libc_malloc_debug.so.0",
                                 "libmemusage.so",
                                 "libpcprofile.so"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || name.starts_with("libnss_");
}

std::vector<Library> loaded_libraries() {
  load_late_libraries();
  std::vector<Library> libraries;
  ::dl_iterate_phdr(add_library, &libraries);
  std::sort(libraries.begin(), libraries.end(), [](const Library& a, const Library& b) { return a.name < b.name; });
  return libraries;
}

}  // namespace dtrain::package
