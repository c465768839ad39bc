// `dtrain package`: writes an archive with this program, the libraries that it needs and their licenses. The program in
// it runs on hosts that do not have these libraries.
#include <fmt/ranges.h>
#include <filesystem>

#include "notes.h"
#include "package/staged.h"
#include "proc/this_host.h"
#include "tool.h"

namespace dtrain::cmd {
namespace {

namespace fs = std::filesystem;
constexpr double kMiB = 1 << 20;

struct PackageOptions {
  std::string out;
  bool overwrite = false;
  bool dry_run = false;
};

job::FlagTable<PackageOptions> package_flags() {
  return {{
      {.name = "out",
       .value = "FILE",
       .help = "archive to write, a .tar.gz file",
       .bind = DT_FIELD(PackageOptions, out),
       .default_text = "dtrain-VERSION-x86_64.tar.gz"},
      {.name = "overwrite", .help = "replace FILE if it exists", .bind = DT_FIELD(PackageOptions, overwrite)},
      {.name = "dry-run",
       .help = "only list the files with their sizes, without writing the archive",
       .bind = DT_FIELD(PackageOptions, dry_run)},
  }};
}

constexpr const char* kPackageUsage =
    "dtrain package [FLAGS]\n"
    "Packs this program with all libraries that it needs, the presets, the run scripts and the licenses. It leaves\n"
    "out glibc, which every host has, and NVIDIA's libraries, which only hosts with GPUs need. Unpack the\n"
    "archive anywhere on a Linux host with an x86-64 processor, and run bin/dtrain.";

void print_files(const package::Contents& contents) {
  for (const package::PackedFile& file : contents.files) {
    const std::string source = file.source.empty() ? "" : "  from " + file.source;
    fmt::print("{:>10}  {}{}\n", file.bytes, file.name, source);
  }
}

void print_summary(const package::Contents& contents) {
  fmt::print("{}: build {}, {} files, {:.1f} MiB, {} libraries\n", contents.name, contents.build_id,
             contents.files.size() + 1, static_cast<double>(contents.bytes()) / kMiB, contents.libraries.size());
  fmt::print("hosts need: an x86-64 processor, Linux, glibc {} or newer\n", contents.glibc);
  if (contents.gpu_libraries.empty()) {
    fmt::print("hosts with GPUs: this build has no module for GPUs\n");
  } else {
    fmt::print("hosts with GPUs also need: NVIDIA's driver, and {} where the loader finds them\n",
               fmt::join(contents.gpu_libraries, ", "));
  }
  for (const std::string& reason : contents.left_out) show_note("left out: " + reason);
  if (contents.without_license.empty()) return;
  fmt::print(stderr, "note: no license texts were found for {}; add them before you distribute the archive\n",
             fmt::join(contents.without_license, ", "));
}

Result<> check_out(const PackageOptions& options) {
  const fs::path path(options.out);
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return fail(Code::kUsage, "--out {}: this is a directory; give a file", options.out);
  if (fs::exists(path, ignored) && !options.overwrite) {
    return fail(Code::kUsage, "--out {}: the file already exists; --overwrite replaces it", options.out);
  }
  const fs::path directory = path.has_parent_path() ? path.parent_path() : ".";
  if (!fs::is_directory(directory, ignored)) {
    return fail(Code::kUsage, "--out {}: there is no directory '{}'", options.out, directory.string());
  }
  return {};
}

}  // namespace

Result<int> package(const Call& call) {
  DT_TRY(ToolLine<PackageOptions> line, read_tool_line(package_flags(), kPackageUsage, call, 0, 0));
  if (line.help) return 0;
  PackageOptions& options = line.options;
  DT_TRY(const std::string executable, proc::this_executable());
  proc::SignalQueue signals;
  DT_TRY(const package::Contents contents, package::package_contents(executable, signals), "collecting the files");
  if (options.out.empty()) options.out = contents.name + ".tar.gz";
  if (options.dry_run) {
    print_files(contents);
    print_summary(contents);
    return 0;
  }
  DT_TRY_VOID(check_out(options));
  print_summary(contents);
  std::fflush(stdout);
  const std::string temporary = call.environment("TMPDIR").value_or("/tmp");
  DT_TRY(const package::StagedPackage staged, package::StagedPackage::create(contents, temporary, signals));
  DT_TRY_VOID(staged.write_archive(options.out, signals), "writing '{}'", options.out);
  fmt::print("wrote {}, {:.1f} MiB\n", options.out, static_cast<double>(fs::file_size(options.out)) / kMiB);
  return 0;
}

}  // namespace dtrain::cmd
