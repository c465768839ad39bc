#include "package/contents.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/module.h"
#include "job/process/build_id.h"
#include "package/elf_file.h"
#include "package/libraries.h"
#include "package/licenses.h"
#include "package/manifest.h"
#include "package/share_files.h"
#include "proc/lines.h"
#include "proc/run.h"

namespace dtrain::package {
namespace {

namespace fs = std::filesystem;
constexpr const char* kLibraries = "lib/dtrain/";
constexpr const char* kLicenses = "share/doc/dtrain/licenses/";

PackedFile file_with(std::string name, std::string content, bool executable = false) {
  PackedFile file{.name = std::move(name), .source = {}, .content = std::move(content), .executable = executable};
  file.bytes = file.content.size();
  return file;
}

Result<PackedFile> file_from(std::string name, const std::string& source, bool executable = false) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(source, error);
  if (error) return fail(Code::kData, "{}: {}", source, error.message());
  return PackedFile{.name = std::move(name), .source = source, .content = {}, .executable = executable, .bytes = bytes};
}

// Packs the ELF files (the executable and libraries), and collects the names of the libraries that they need.
class BinaryFiles {
 public:
  // Adds a file. `search_path`: the path in which the packed copy searches for libraries. A file without a search path
  // is packed unchanged.
  Result<> add(const std::string& name, const std::string& path, const std::string& search_path) {
    DT_TRY(std::string bytes, read_file(path, kDataBytesMax));
    DT_TRY(DynamicSection section, read_dynamic_section(bytes, path));
    glibc_ = std::max(glibc_, section.glibc);
    for (const std::string& needed : section.needed) {
      if (!belongs_to_glibc(needed)) needed_.push_back({needed, path});
    }
    if (section.search_path == search_path) {
      DT_TRY(files_.emplace_back(), file_from(name, path));
      return {};
    }
    DT_TRY_VOID(set_search_path(bytes, search_path, path));
    files_.push_back(file_with(name, std::move(bytes)));
    return {};
  }

  // Code::kData if a file that was added needs a library that is not among `names`.
  [[nodiscard]] Result<> check_needed(const std::set<std::string>& names) const {
    for (const auto& [library, by] : needed_) {
      if (names.contains(library)) continue;
      return fail(Code::kData, "{} needs {}, which this process has not loaded", by, library);
    }
    return {};
  }

  [[nodiscard]] std::string glibc() const { return fmt::format("{}", fmt::join(glibc_, ".")); }
  std::vector<PackedFile> take() { return std::move(files_); }

 private:
  std::vector<PackedFile> files_;
  std::vector<int> glibc_;
  std::vector<std::pair<std::string, std::string>> needed_;  // a library, and the file that needs it
};

// The libraries of NVIDIA that the GPU module needs. They are not packed, so a host with GPUs must have them.
Result<std::vector<std::string>> own_libraries_of_gpu_host(const std::string& module,
                                                           const std::set<std::string>& packed) {
  DT_TRY(const std::string bytes, read_file(module, kDataBytesMax));
  DT_TRY(const DynamicSection section, read_dynamic_section(bytes, module));
  std::vector<std::string> libraries;
  for (const std::string& needed : section.needed) {
    if (!belongs_to_glibc(needed) && !packed.contains(needed)) libraries.push_back(needed);
  }
  return libraries;
}

// The path of the GPU module; empty if there is none. The module is not loaded, because that fails on a host without
// CUDA.
std::string module_for_gpus(const std::string& executable) {
  const fs::path directory = fs::path(executable).parent_path();
  for (const fs::path& path : {directory / kCudaModule.file, directory / "../lib/dtrain" / kCudaModule.file}) {
    if (fs::exists(path)) return path.string();
  }
  return "";
}

void add(std::vector<PackedFile>& files, std::vector<PackedFile> more) {
  std::move(more.begin(), more.end(), std::back_inserter(files));
}

Result<> add_binaries(const std::string& executable, const std::vector<Library>& libraries, Contents& contents) {
  BinaryFiles binaries;
  std::set<std::string> names;
  for (const Library& library : libraries) names.insert(library.name);
  contents.libraries.assign(names.begin(), names.end());
  DT_TRY_VOID(binaries.add("bin/dtrain", executable, kPackedSearchPath), "packing the executable");
  // The packed libraries must not have search paths, which would take precedence over that of the executable and lead
  // to libraries of the host.
  for (const Library& library : libraries) {
    DT_TRY_VOID(binaries.add(kLibraries + library.name, library.path, ""), "packing {}", library.name);
  }
  DT_TRY_VOID(binaries.check_needed(names));
  if (const std::string module = module_for_gpus(executable); !module.empty()) {
    DT_TRY(contents.gpu_libraries, own_libraries_of_gpu_host(module, names));
    DT_TRY(contents.files.emplace_back(), file_from(kLibraries + std::string(kCudaModule.file), module));
  }
  contents.glibc = binaries.glibc();
  add(contents.files, binaries.take());
  return {};
}

// Loads the other modules, and with them the libraries that they need.
void load_modules(Contents& contents) {
  for (const Module& module : {kChartsModule, kWebModule}) {
    const Result<void*> loaded = load_module(module, module.file);
    if (!loaded) contents.left_out.push_back(loaded.error().message);
  }
}

Result<> add_licenses(std::vector<Library> libraries, proc::SignalQueue& signals, Contents& contents) {
  // The modules are part of this program, so they are under its own license.
  std::erase_if(libraries, [](const Library& library) { return library.name.starts_with("dtrain_"); });
  DT_TRY(Licenses licenses, find_licenses(libraries, signals));
  for (const LicenseFile& license : licenses.files) {
    DT_TRY(contents.files.emplace_back(), file_from(kLicenses + license.name, license.path));
  }
  contents.files.push_back(file_with(kLicenses + std::string("libraries.txt"), std::move(licenses.table)));
  contents.without_license = std::move(licenses.missing);
  return {};
}

void add_share_files(Contents& contents) {
  for (const ShareFile& file : share_files()) {
    const bool is_ours = file.name == "LICENSE";
    const std::string name = is_ours ? "LICENSE" : "share/dtrain/" + std::string(file.name);
    contents.files.push_back(file_with(name, std::string(file.content), name.ends_with(".sh")));
  }
}

Result<Contents> built_here(const std::string& executable, proc::SignalQueue& signals) {
  Contents contents;
  contents.name = fmt::format("dtrain-{}-x86_64", job::version());
  contents.build_id = job::build_id();
  load_modules(contents);
  const std::vector<Library> libraries = loaded_libraries();
  DT_TRY_VOID(add_binaries(executable, libraries, contents));
  DT_TRY_VOID(add_licenses(libraries, signals, contents));
  add_share_files(contents);
  for (PackedFile& file : contents.files) file.executable = file.executable || file.name == "bin/dtrain";
  return contents;
}

// The contents of the unpacked package in `root`.
Result<Contents> unpacked(const std::string& root, proc::SignalQueue& signals) {
  Contents contents;
  DT_TRY(contents.manifest, read_file(root + "/" + kManifest));
  DT_TRY(const Manifest manifest, parse_manifest(contents.manifest), "reading {}/{}", root, kManifest);
  DT_TRY(
      const proc::Finished check,
      proc::run({.arguments = {"env", "-C", root, "sha256sum", "--check", "--strict", "--quiet", kManifest}}, signals));
  if (!check.ended_with(0)) {
    return fail(Code::kData, "the package in '{}' is incomplete or damaged; unpack it again: {}", root,
                proc::first_words(check.output.empty() ? check.errors : check.output));
  }
  contents.name = manifest.name;
  contents.build_id = manifest.build_id;
  contents.glibc = manifest.glibc;
  contents.gpu_libraries = manifest.gpu_libraries;
  for (const auto& [name, checksum] : manifest.checksums) {
    const std::string path = fmt::format("{}/{}", root, name);
    const bool executable = (fs::status(path).permissions() & fs::perms::owner_exec) != fs::perms::none;
    DT_TRY(contents.files.emplace_back(), file_from(name, path, executable));
    if (name.starts_with(kLibraries)) contents.libraries.push_back(name.substr(std::string(kLibraries).size()));
  }
  return contents;
}

}  // namespace

uint64_t Contents::bytes() const {
  uint64_t sum = 0;
  for (const PackedFile& file : files) sum += file.bytes;
  return sum;
}

Result<Contents> package_contents(const std::string& executable, proc::SignalQueue& signals) {
  const std::string root = fs::path(executable).parent_path().parent_path().string();
  const bool is_unpacked = fs::exists(root + "/" + kManifest) && fs::is_directory(root + "/" + kLibraries);
  DT_TRY(Contents contents, is_unpacked ? unpacked(root, signals) : built_here(executable, signals));
  std::sort(contents.files.begin(), contents.files.end(),
            [](const PackedFile& a, const PackedFile& b) { return a.name < b.name; });
  return contents;
}

}  // namespace dtrain::package
