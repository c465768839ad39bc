// The parts of `dtrain package`: reading ELF files, the manifest, licenses, and the archive. test/cluster runs a
// package.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "package/elf_file.h"
#include "package/libraries.h"
#include "package/licenses.h"
#include "package/manifest.h"
#include "package/share_files.h"
#include "package/staged.h"
#include "proc/run.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::package;
using dtrain::test::contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

namespace fs = std::filesystem;

// A small file with everything that is read: a dynamic section, its strings, and versions of two libraries.
struct SmallElf {
  Elf64_Ehdr header = {};
  Elf64_Phdr load = {}, dynamic = {};
  Elf64_Dyn entries[7] = {};
  Elf64_Verneed libc = {};
  Elf64_Vernaux versions[2] = {};
  Elf64_Verneed other = {};
  Elf64_Vernaux other_version = {};
  char strings[96] = {};
};

constexpr uint64_t kAddress = 0x400000;  // of the file's first byte in memory

std::string small_elf(int64_t search_tag = DT_RPATH) {
  SmallElf file;
  size_t used = 1;
  const auto text = [&](const char* words) {
    std::strcpy(file.strings + used, words);
    return static_cast<uint32_t>(std::exchange(used, used + std::strlen(words) + 1));
  };
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_ident[EI_DATA] = ELFDATA2LSB;
  file.header.e_machine = EM_X86_64;
  file.header.e_phoff = offsetof(SmallElf, load);
  file.header.e_phnum = 2;
  file.load.p_type = PT_LOAD;
  file.load.p_vaddr = kAddress;
  file.load.p_filesz = sizeof(SmallElf);
  file.dynamic.p_type = PT_DYNAMIC;
  file.dynamic.p_offset = offsetof(SmallElf, entries);
  file.dynamic.p_filesz = sizeof(file.entries);
  const auto entry = [&](int i, int64_t tag, uint64_t value) {
    file.entries[i].d_tag = tag;
    file.entries[i].d_un.d_val = value;
  };
  entry(0, DT_NEEDED, text("libz.so.1"));
  entry(1, DT_STRTAB, kAddress + offsetof(SmallElf, strings));
  entry(2, search_tag, text("/opt/lib:$ORIGIN/../lib/dtrain"));
  entry(3, DT_NEEDED, text("libc.so.6"));
  entry(4, DT_VERNEED, kAddress + offsetof(SmallElf, libc));
  entry(5, DT_VERNEEDNUM, 2);
  const auto version = [&](const char* name, uint32_t next) {
    return Elf64_Vernaux{.vna_hash = 0, .vna_flags = 0, .vna_other = 0, .vna_name = text(name), .vna_next = next};
  };
  file.libc = {.vn_version = 1,
               .vn_cnt = 2,
               .vn_file = 0,
               .vn_aux = sizeof(Elf64_Verneed),
               .vn_next = offsetof(SmallElf, other) - offsetof(SmallElf, libc)};
  file.versions[0] = version("GLIBC_2.4", sizeof(Elf64_Vernaux));
  file.versions[1] = version("GLIBC_2.34", 0);
  file.other = {.vn_version = 1, .vn_cnt = 1, .vn_file = 0, .vn_aux = sizeof(Elf64_Verneed), .vn_next = 0};
  file.other_version = version("Z_9.9", 0);
  return {reinterpret_cast<const char*>(&file), sizeof(file)};
}

// bin/dtrain is a script, so that hosts can start it.
Contents small_contents(const std::string& library) {
  Contents contents{.name = "dtrain-9-x86_64", .build_id = "9-test", .glibc = "2.34"};
  contents.files = {
      {.name = "bin/dtrain", .source = {}, .content = "#!/bin/sh\necho dtrain 9\n", .executable = true},
      {.name = "lib/dtrain/libz.so.1", .source = library, .content = {}},
  };
  return contents;
}

std::vector<std::string> lines_of(const std::vector<std::string>& command) {
  proc::SignalQueue signals;
  return must(proc::output_of({.arguments = command}, signals));
}

}  // namespace

TEST_CASE("an ELF file says what it needs", "[package][package]") {
  const DynamicSection section = must(read_dynamic_section(small_elf(), "x"));
  CHECK(section.needed == std::vector<std::string>{"libz.so.1", "libc.so.6"});
  CHECK(section.search_path == "/opt/lib:$ORIGIN/../lib/dtrain");
  CHECK(section.glibc == std::vector<int>{2, 34});  // not 2.4, which comes later in the alphabet
  const DynamicSection own = must(read_dynamic_section(must(read_file("/proc/self/exe", kDataBytesMax)), "this test"));
  CHECK(std::find(own.needed.begin(), own.needed.end(), "libc.so.6") != own.needed.end());
  CHECK(own.glibc >= std::vector<int>{2, 2, 5});
}

TEST_CASE("the search path of a packed file leads only into the package", "[package][package]") {
  std::string shortened = small_elf();
  REQUIRE(set_search_path(shortened, kPackedSearchPath, "x"));
  CHECK(must(read_dynamic_section(shortened, "x")).search_path == kPackedSearchPath);
  for (const int64_t tag : {DT_RPATH, DT_RUNPATH}) {
    std::string removed = small_elf(tag);
    REQUIRE(set_search_path(removed, "", "x"));
    const DynamicSection section = must(read_dynamic_section(removed, "x"));
    CHECK(section.search_path.empty());
    CHECK(section.needed == std::vector<std::string>{"libz.so.1", "libc.so.6"});
    CHECK(section.glibc == std::vector<int>{2, 34});
    CHECK(removed.size() == sizeof(SmallElf));
  }
  std::string other = small_elf();
  CHECK(set_search_path(other, "$ORIGIN", "x").error().message ==
        "x: its search path for libraries does not end with '$ORIGIN'");
}

TEST_CASE("a broken ELF file is an error or harmless", "[package][package]") {
  const std::string good = small_elf();
  const size_t strings_end = good.find("Z_9.9") + std::strlen("Z_9.9") + 1;  // nothing behind it is read
  for (size_t length = 0; length < good.size(); length++) {
    std::string cut = good.substr(0, length);
    const Result<DynamicSection> section = read_dynamic_section(cut, "x");
    if (length < strings_end) REQUIRE_FALSE(section);
    CHECK(bool(set_search_path(cut, "", "x")) == bool(section));
  }
  for (size_t bit = 0; bit < good.size() * 8; bit++) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const Result<DynamicSection> section = read_dynamic_section(flipped, "x");
    if (!section) CHECK(section.error().code == Code::kData);
    CHECK(bool(set_search_path(flipped, "", "x")) == bool(section));
    CHECK(flipped.size() == good.size());
  }
  CHECK_FALSE(read_dynamic_section("#!/bin/sh\n", "x"));
}

TEST_CASE("the libraries of glibc are left to the host, and all others are found", "[package][package]") {
  for (const char* name : {"libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libmvec.so.1", "libpthread.so.0",
                           "libresolv.so.2", "libnss_files.so.2", "librt.so.1"}) {
    CHECK(belongs_to_glibc(name));
  }
  // The last three have similar names: Mozilla's NSS, tirpc's NSL, and a newer libc.
  for (const char* name :
       {"libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1", "libnss3.so", "libnsl.so.2", "libc.so.7"}) {
    CHECK_FALSE(belongs_to_glibc(name));
  }
  const std::vector<Library> libraries = loaded_libraries();
  const auto is_stdcxx = [](const Library& library) { return library.name == "libstdc++.so.6"; };
  CHECK(std::count_if(libraries.begin(), libraries.end(), is_stdcxx) == 1);
  for (const Library& library : libraries) {
    INFO(library.path);
    CHECK_FALSE(belongs_to_glibc(library.name));
    CHECK(fs::is_regular_file(library.path));
  }
}

TEST_CASE("a manifest is read as it was written", "[package][package]") {
  const std::string sum(64, 'a');
  const Manifest manifest{"dtrain-9-x86_64",
                          "9-x",
                          "2.34",
                          {"libcudart.so.13", "libnccl.so.2"},
                          {{"bin/dtrain", sum}, {"lib/dtrain/a b", sum}}};
  const std::string text = manifest_text(manifest);
  const Manifest read = must(parse_manifest(text));
  CHECK(manifest_text(read) == text);
  CHECK(read.gpu_libraries == manifest.gpu_libraries);
  CHECK(read.checksums == manifest.checksums);
  for (size_t length = 0; length < text.size(); length++) static_cast<void>(parse_manifest(text.substr(0, length)));
  for (const char* name : {"../x", "/etc/passwd", "a/../../x", ""}) {
    CHECK_FALSE(parse_manifest(text + sum + "  " + name + "\n"));
  }
  CHECK_FALSE(parse_manifest(text + "no checksum\n"));
  CHECK_FALSE(parse_manifest("# name: a/b\n" + sum + "  x\n"));
  CHECK_FALSE(parse_manifest(sum + "  x\n"));
}

TEST_CASE("the common licenses that a copyright file names are found", "[package][package]") {
  CHECK(common_licenses_in("see '/usr/share/common-licenses/GPL-3'. Or /usr/share/common-licenses/LGPL-2.1.\n"
                           "/usr/share/common-licenses/GPL-3, /usr/share/common-licenses/\n"
                           "/usr/share/common-licenses/../../../etc/passwd") ==
        std::vector<std::string>{"GPL-3", "LGPL-2.1"});
}

TEST_CASE("presets, published settings, scripts and the license are in the program", "[package][package]") {
  const auto has = [](std::string_view name) {
    const auto files = share_files();
    return std::any_of(files.begin(), files.end(), [&](const ShareFile& file) { return file.name == name; });
  };
  CHECK(has("LICENSE"));
  size_t count = 1;
  for (const char* directory : {"configs/presets", "configs/published", "scripts"}) {
    for (const auto& entry : fs::directory_iterator(std::string(DTRAIN_SOURCES) + "/" + directory)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".toml" && extension != ".sh") continue;
      INFO(entry.path());
      CHECK(has(std::string(directory) + "/" + entry.path().filename().string()));
      count++;
    }
  }
  CHECK(share_files().size() == count);
}

TEST_CASE("the same contents give the same archive, without links", "[package][package]") {
  const TempDir dir;
  proc::SignalQueue signals;
  must(write_file_atomic(dir.path("real"), "library"));
  fs::create_symlink("real", dir.path("link"));
  fs::permissions(dir.path("real"), fs::perms(0600));
  const StagedPackage one = must(StagedPackage::create(small_contents(dir.path("link")), dir.path(), signals));
  must(write_file_atomic(dir.path("again"), "library"));
  const StagedPackage two = must(StagedPackage::create(small_contents(dir.path("again")), dir.path(), signals));
  must(one.write_archive(dir.path("one.tar.gz"), signals));
  must(two.write_archive(dir.path("two.tar.gz"), signals));
  CHECK(must(read_file(dir.path("one.tar.gz"))) == must(read_file(dir.path("two.tar.gz"))));
  CHECK(one.id() == two.id());
  CHECK(one.id().starts_with("9-test-"));
  const std::vector<std::string> lines = lines_of({"tar", "--list", "--verbose", "--file=" + dir.path("one.tar.gz")});
  REQUIRE(lines.size() == 7);  // with the four directories
  CHECK(lines[1].starts_with("-rw-r--r-- 0/0"));
  CHECK(contains(lines[1], "MANIFEST"));
  CHECK(lines[3].starts_with("-rwxr-xr-x 0/0"));
  CHECK(contains(lines[3], "2000-01-01"));
  CHECK(lines[6].starts_with("-rw-r--r-- 0/0"));

  const Result<> failed = one.write_archive(dir.path("no/such/directory.tar.gz"), signals);
  CHECK(failed.error().code == Code::kData);
}

// As `dtrain package` does in an unpacked package.
TEST_CASE("an unpacked package gives the same package again, unless a file has changed", "[package][package]") {
  const TempDir dir;
  proc::SignalQueue signals;
  must(write_file_atomic(dir.path("library"), "library"));
  const StagedPackage first = must(StagedPackage::create(small_contents(dir.path("library")), dir.path(), signals));
  must(first.write_archive(dir.path("first.tar.gz"), signals));
  lines_of({"tar", "--extract", "--file=" + dir.path("first.tar.gz"), "-C", dir.path()});
  const std::string executable = dir.path("dtrain-9-x86_64/bin/dtrain");
  const Contents contents = must(package_contents(executable, signals));
  CHECK(contents.name == "dtrain-9-x86_64");
  CHECK(contents.glibc == "2.34");
  CHECK(contents.libraries == std::vector<std::string>{"libz.so.1"});
  const StagedPackage second = must(StagedPackage::create(contents, dir.path(), signals));
  CHECK(second.id() == first.id());
  must(second.write_archive(dir.path("second.tar.gz"), signals));
  CHECK(must(read_file(dir.path("first.tar.gz"))) == must(read_file(dir.path("second.tar.gz"))));

  must(write_file_atomic(dir.path("dtrain-9-x86_64/lib/dtrain/libz.so.1"), "virus"));
  const Error changed = package_contents(executable, signals).error();
  CHECK(changed.code == Code::kData);
  CHECK(contains(changed.text(), "lib/dtrain/libz.so.1: FAILED"));
}
