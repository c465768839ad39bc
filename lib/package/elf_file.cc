#include "package/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

namespace dtrain::package {
namespace {

// Reads the file with checks of the bounds. A read outside of the file returns zeros and marks the file as `broken`;
// the functions that use this class check that once, at the end. Zeros also terminate every list that is read below.
class Elf {
 public:
  explicit Elf(std::string_view file) : file_(file) {
    const auto header = at<Elf64_Ehdr>(0);
    broken_ = broken_ || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
              header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64;
    std::optional<Elf64_Phdr> dynamic;
    for (uint64_t i = 0; i < header.e_phnum && !broken_; i++) {
      const auto segment = at<Elf64_Phdr>(sum(header.e_phoff, i * sizeof(Elf64_Phdr)));
      if (segment.p_type == PT_LOAD) loaded_.push_back(segment);
      if (segment.p_type == PT_DYNAMIC) dynamic = segment;
    }
    broken_ = broken_ || !dynamic;
    if (!broken_) read_entries(*dynamic);
  }
  [[nodiscard]] bool broken() const { return broken_; }

  struct Entry {
    uint64_t offset = 0;  // position in the file
    Elf64_Dyn value = {};
  };
  // The entries of the dynamic section, without the DT_NULL that terminates them in the file.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::optional<uint64_t> value_of(int64_t tag) const {
    for (const Entry& entry : entries_) {
      if (entry.value.d_tag == tag) return entry.value.d_un.d_val;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::string text(uint64_t offset) const {
    const std::string_view rest = file_.substr(std::min<uint64_t>(sum(strings_, offset), file_.size()));
    const size_t end = rest.find('\0');
    broken_ = broken_ || end == std::string_view::npos;
    return broken_ ? "" : std::string(rest.substr(0, end));
  }

  template <class T>
  [[nodiscard]] T at(uint64_t offset) const {
    T value{};
    broken_ = broken_ || offset > file_.size() || file_.size() - offset < sizeof(T);
    if (!broken_) std::memcpy(&value, file_.data() + offset, sizeof(T));
    return value;
  }

  [[nodiscard]] uint64_t offset_of(uint64_t address) const {
    for (const Elf64_Phdr& segment : loaded_) {
      if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
      return sum(segment.p_offset, address - segment.p_vaddr);
    }
    broken_ = true;
    return 0;
  }

  // The sum, saturated: if it would overflow, it is an offset outside of any file.
  static uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

 private:
  void read_entries(const Elf64_Phdr& dynamic) {
    for (uint64_t read = 0;; read += sizeof(Elf64_Dyn)) {
      broken_ = broken_ || read + sizeof(Elf64_Dyn) > dynamic.p_filesz;
      const uint64_t offset = sum(dynamic.p_offset, read);
      const auto entry = at<Elf64_Dyn>(offset);
      if (entry.d_tag == DT_NULL) break;
      entries_.push_back({offset, entry});
    }
    const std::optional<uint64_t> strings = value_of(DT_STRTAB);
    broken_ = broken_ || !strings;
    if (!broken_) strings_ = offset_of(*strings);
  }

  std::string_view file_;
  std::vector<Elf64_Phdr> loaded_;
  std::vector<Entry> entries_;
  uint64_t strings_ = 0;
  mutable bool broken_ = false;
};

bool names_search_path(const Elf::Entry& entry) {
  return entry.value.d_tag == DT_RPATH || entry.value.d_tag == DT_RUNPATH;
}

// {2, 34} for "GLIBC_2.34"; empty for other names.
std::vector<int> glibc_version(const std::string& symbol_version) {
  constexpr std::string_view kPrefix = "GLIBC_";
  // This name contains no number. It marks relocations that only glibc 2.36 or newer can load.
  if (symbol_version == "GLIBC_ABI_DT_RELR") return {2, 36};
  if (!symbol_version.starts_with(kPrefix)) return {};
  std::vector<int> numbers;
  std::istringstream text(symbol_version.substr(kPrefix.size()));
  for (int number = 0; text >> number;) {
    numbers.push_back(number);
    if (text.get() != '.') break;
  }
  return numbers;
}

// The latest version of glibc that the file needs. The loops end because links lead only forward, and the head of each
// list contains its length.
std::vector<int> newest_glibc(const Elf& elf) {
  std::vector<int> newest;
  const std::optional<uint64_t> address = elf.value_of(DT_VERNEED);
  if (!address) return newest;
  uint64_t file = elf.offset_of(*address);
  for (;;) {
    const auto need = elf.at<Elf64_Verneed>(file);
    uint64_t version = Elf::sum(file, need.vn_aux);
    for (int i = 0; i < need.vn_cnt; i++) {
      const auto one = elf.at<Elf64_Vernaux>(version);
      newest = std::max(newest, glibc_version(elf.text(one.vna_name)));
      if (one.vna_next == 0) break;
      version = Elf::sum(version, one.vna_next);
    }
    if (need.vn_next == 0) return newest;
    file = Elf::sum(file, need.vn_next);
  }
}

tl::unexpected<Error> broken(const std::string& name) {
  return fail(Code::kData, "{}: not a complete ELF file for x86-64 with a dynamic section", name);
}

// Removes an entry of the dynamic section: moves all entries after it, including the DT_NULL, forward by one place.
void remove_entry(std::string& file, const Elf& elf, uint64_t offset) {
  const uint64_t after_null = elf.entries().back().offset + 2 * sizeof(Elf64_Dyn);
  std::memmove(file.data() + offset, file.data() + offset + sizeof(Elf64_Dyn), after_null - offset - sizeof(Elf64_Dyn));
}

void set_value(std::string& file, uint64_t offset, uint64_t value) {
  std::memcpy(file.data() + offset + offsetof(Elf64_Dyn, d_un), &value, sizeof(value));
}

}  // namespace

Result<DynamicSection> read_dynamic_section(std::string_view file, const std::string& name) {
  const Elf elf(file);
  DynamicSection section;
  for (const Elf::Entry& entry : elf.entries()) {
    if (entry.value.d_tag == DT_NEEDED) section.needed.push_back(elf.text(entry.value.d_un.d_val));
    if (names_search_path(entry)) section.search_path = elf.text(entry.value.d_un.d_val);
  }
  section.glibc = newest_glibc(elf);
  if (elf.broken()) return broken(name);
  return section;
}

Result<> set_search_path(std::string& file, const std::string& path, const std::string& name) {
  DT_TRY_VOID(read_dynamic_section(file, name));  // makes sure that the following changes are within the file
  const std::string before = file;
  const Elf elf(before);
  bool found = false;
  // Begins with the last entry, because the removal of an entry moves the entries after it.
  for (auto entry = elf.entries().rbegin(); entry != elf.entries().rend(); entry++) {
    if (!names_search_path(*entry)) continue;
    const std::string present = elf.text(entry->value.d_un.d_val);
    if (path.empty()) {
      remove_entry(file, elf, entry->offset);
    } else if (present.ends_with(path)) {
      set_value(file, entry->offset, entry->value.d_un.d_val + present.size() - path.size());
      found = true;
    }
  }
  if (found || path.empty()) return {};
  return fail(Code::kData, "{}: its search path for libraries does not end with '{}'", name, path);
}

}  // namespace dtrain::package
