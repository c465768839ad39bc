#include "role/setup/class_names.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "role/process/run_dir.h"

namespace dtrain::role {
namespace {

std::string without_id(std::string_view line) {
  const bool has_id = line.size() > 9 && line[0] == 'n' && line[9] == ' ' &&
                      std::all_of(line.begin() + 1, line.begin() + 9, [](char c) { return c >= '0' && c <= '9'; });
  return std::string(has_id ? line.substr(10) : line);
}

std::vector<std::string> parse_class_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    names.push_back(without_id(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> read_class_names(const std::string& path) {
  DT_TRY(const std::string text, read_file(path));
  return parse_class_names(text);
}

Result<std::vector<std::string>> class_names_in(const std::vector<std::string>& directories, int64_t classes,
                                                const Log& log) {
  for (const std::string& directory : directories) {
    const std::string path = (std::filesystem::path(directory) / kClassNamesFile).string();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    DT_TRY(std::vector<std::string> names, read_class_names(path));
    if (std::ssize(names) == classes) return names;
    log.warn("{} is not used: it has {} lines, but the model has {} classes", path, names.size(), classes);
  }
  return std::vector<std::string>();
}

}  // namespace dtrain::role
