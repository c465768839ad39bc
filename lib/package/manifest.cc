#include "package/manifest.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <sstream>

namespace dtrain::package {
namespace {

constexpr size_t kChecksumDigits = 64;  // number of digits of a SHA-256 checksum
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_";

bool leads_out(const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

tl::unexpected<Error> bad_line(const std::string& line) {
  return fail(Code::kData, "'{}' is not a line of a package's manifest", line);
}

Result<> read_property(const std::string& line, Manifest& manifest) {
  const size_t colon = line.find(": ");
  if (colon == std::string::npos) return bad_line(line);
  const std::string key = line.substr(2, colon - 2), value = line.substr(colon + 2);
  if (key == "name") manifest.name = value;
  if (key == "build") manifest.build_id = value;
  if (key == "glibc") manifest.glibc = value;
  std::istringstream words(value);
  for (std::string word; key == "libraries of a host with GPUs" && words >> word;)
    manifest.gpu_libraries.push_back(word);
  return {};
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  std::string text =
      fmt::format("# name: {}\n# build: {}\n# glibc: {}\n", manifest.name, manifest.build_id, manifest.glibc);
  if (!manifest.gpu_libraries.empty()) {
    text += fmt::format("# libraries of a host with GPUs: {}\n", fmt::join(manifest.gpu_libraries, " "));
  }
  for (const auto& [name, checksum] : manifest.checksums) text += fmt::format("{}  {}\n", checksum, name);
  return text;
}

Result<Manifest> parse_manifest(std::string_view text) {
  Manifest manifest;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) {
      DT_TRY_VOID(read_property(line, manifest));
      continue;
    }
    const size_t digits = std::min(line.find_first_not_of(kDigits), line.size());
    if (digits != kChecksumDigits || line.compare(digits, 2, "  ") != 0) return bad_line(line);
    std::string name = line.substr(digits + 2);
    if (name.empty() || leads_out(name)) return bad_line(line);
    manifest.checksums[std::move(name)] = line.substr(0, digits);
  }
  // The name is used as the name of a directory, so it must not contain special characters.
  const bool is_plain = manifest.name.find_first_not_of(kPlain) == std::string::npos && !manifest.name.starts_with('.');
  if (manifest.name.empty() || !is_plain) return fail(Code::kData, "the name of the package is missing");
  if (manifest.checksums.empty()) return fail(Code::kData, "the manifest lists no files");
  return manifest;
}

}  // namespace dtrain::package
