#include "data/sources/image_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include "base/file_kind.h"
#include "base/printable.h"
#include "base/words.h"
#include "data/records/image_list.h"
#include "images/image_header.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kImage = "image", kUncounted;

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

bool is_among(std::string_view text, std::span<const std::string_view> values) {
  return std::ranges::find(values, text) != values.end();
}

constexpr auto kTexts = std::to_array<std::string_view>({".csv", ".json", ".lst", ".md", ".txt", ".xml"});
constexpr auto kImagesInWords = std::to_array<std::string_view>({".svg", ".xbm", ".xpm"});
constexpr auto kOfWindows = std::to_array<std::string_view>({"desktop.ini", "ehthumbs.db", "thumbs.db"});

std::string name_of(const std::string& extension) {
  return extension.empty() ? "without extension" : printable(extension);
}

// The kind of a file, judged by its first bytes: an image; a text, which is not counted; or something else, which is
// named by its extension.
std::string kind_by_content(const fs::path& path, const std::string& extension) {
  std::array<char, 256> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  const std::string_view begin(bytes.data(), static_cast<size_t>(file.gcount()));
  const std::string_view kind = file_kind(begin);
  if (kind == "a JPEG image" || kind == "a PNG image") return std::string(kImage);
  if (is_among(extension, kTexts)) return std::string(kUncounted);
  const bool is_text = kind == "a text file" && images::unread_format(as_bytes(begin)).empty();
  return is_text && !is_among(extension, kImagesInWords) ? std::string(kUncounted) : name_of(extension);
}

std::string kind_of(const fs::directory_entry& entry) {
  const std::string name = lower_case(entry.path().filename().string());
  if (name.starts_with('.') || is_among(name, kOfWindows)) return std::string(kUncounted);
  std::error_code error;
  const fs::file_status status = entry.status(error);
  if (status.type() == fs::file_type::not_found) return "broken links";
  if (status.type() != fs::file_type::regular) return "not regular";
  const std::string extension = lower_case(entry.path().extension().string());
  if (extension == ".jpg" || extension == ".jpeg" || extension == ".png") return std::string(kImage);
  return kind_by_content(entry.path(), extension);
}

// Visits the entries of a directory until `is_found` returns true.
template <class IsFound>
bool any_in(const std::string& directory, const IsFound& is_found) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (is_found(entry)) return true;
  }
  return false;
}

bool leads_above(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_symlink(error)) return false;
  const fs::path target = fs::canonical(entry.path(), error), from = fs::canonical(entry.path().parent_path(), error);
  return is_in(from, target);
}

// Links to directories are followed only up to this depth, because a link may lead back.
constexpr int kDepthMax = 32;

bool has_image(const std::string& directory, int depth) {
  if (has_own_image(directory)) return true;
  return depth < kDepthMax && any_in(directory, [&](const fs::directory_entry& entry) {
           std::error_code error;
           return entry.is_directory(error) && !is_hidden(entry.path()) && !leads_above(entry) &&
                  has_image(entry.path().string(), depth + 1);
         });
}

}  // namespace

Result<ListedImages> list_images(const std::string& directory) {
  ListedImages found;
  const auto takes = [&](const fs::directory_entry& entry) {
    const std::string kind = kind_of(entry);
    if (kind != kImage && kind != kUncounted) found.others[kind]++;
    return kind == kImage;
  };
  const auto enters = [](const fs::directory_entry& entry) { return !is_hidden(entry.path()); };
  DT_TRY(ImageDirectory listed, list_directory(directory, true, {.enters = enters, .takes = takes}));
  for (ListEntry& entry : listed.entries) found.images.push_back(std::move(entry.path));
  return found;
}

void count_unlisted(const fs::directory_entry& entry, OtherFiles& others) {
  const std::string kind = kind_of(entry);
  if (kind == kUncounted) return;
  others[kind == kImage ? name_of(lower_case(entry.path().extension().string())) + " (an image)" : kind]++;
}

Result<OtherFiles> files_beside_classes(const std::string& root, const std::vector<std::string>& counted) {
  OtherFiles others;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    std::error_code broken_link;
    if (entry.is_directory(broken_link)) continue;
    const std::string kind = kind_of(entry);
    if (kind != kUncounted) others[kind == kImage ? "without a class" : kind]++;
  }
  if (error) return fail(Code::kNotFound, "{}: {}", root, error.message());
  DT_TRY(const ClassDirectories directories, class_directories(root));
  for (const std::string& name : directories.without_images) {
    if (std::ranges::find(counted, name) != counted.end()) continue;
    DT_TRY(const ListedImages found, list_images((fs::path(root) / name).string()));
    add(found.others, others);
  }
  return others;
}

bool has_own_image(const std::string& directory) {
  return any_in(directory, [](const fs::directory_entry& entry) {
    std::error_code error;
    return !entry.is_directory(error) && kind_of(entry) == kImage;
  });
}

bool has_image(const std::string& directory) {
  return has_image(directory, 0);
}

Result<std::vector<std::string>> directories_in(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    std::error_code broken_link;
    if (!is_hidden(entry.path()) && entry.is_directory(broken_link)) names.push_back(entry.path().filename().string());
  }
  if (error) return fail(Code::kNotFound, "{}: {}", root, error.message());
  std::ranges::sort(names);
  return names;
}

Result<ClassDirectories> class_directories(const std::string& root) {
  ClassDirectories found;
  DT_TRY(const std::vector<std::string> names, directories_in(root));
  for (const std::string& name : names) {
    const bool is_class = has_image((fs::path(root) / name).string());
    if (is_class && name.find_first_of("\r\n") != std::string::npos) {
      return fail(Code::kData, "{}: the name of the class '{}' has a line break: rename the directory", root,
                  printable(name));
    }
    (is_class ? found.classes : found.without_images).push_back(name);
  }
  return found;
}

Error no_images(const std::string& root, const OtherFiles& others) {
  if (!others.empty()) {
    return {Code::kData,
            fmt::format("{}: the subdirectories contain no JPEG or PNG files (but {}): convert images of other "
                        "formats, as `mogrify -format png` does",
                        root, to_text(others)),
            {}};
  }
  return {Code::kNotFound,
          fmt::format("{}: the subdirectories contain no images (JPEG or PNG files). An image data set is a directory "
                      "with one subdirectory per class, or with such subdirectories in train/ and val/",
                      root),
          {}};
}

void add(const OtherFiles& more, OtherFiles& others) {
  for (const auto& [kind, count] : more) others[kind] += count;
}

std::string to_text(const OtherFiles& others) {
  std::string text;
  for (const auto& [kind, count] : others) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  return text;
}

}  // namespace dtrain::data
