#include "tools/im2rec.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "data/image_list.h"

namespace dtrain::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListSuffix = ".lst";

// All PREFIX*.lst, sorted by name.
std::vector<std::string> find_lists(const std::string& prefix) {
  const fs::path path(prefix);
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> lists;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(path.filename().string()) || !name.ends_with(kListSuffix)) continue;
    lists.push_back((path.has_parent_path() ? directory / name : fs::path(name)).string());
  }
  std::ranges::sort(lists);
  return lists;
}

std::vector<data::ListEntry> in_order(std::vector<data::ListEntry> entries, bool shuffle) {
  if (!shuffle) return entries;
  std::vector<data::ListEntry> shuffled;
  for (const int64_t i : data::python_shuffle(static_cast<int64_t>(entries.size()))) {
    shuffled.push_back(std::move(entries[static_cast<size_t>(i)]));
  }
  return shuffled;
}

// Makes PREFIX.lst from the images in `root`.
Result<std::string> make_list(const std::string& prefix, const std::string& root, const Im2recOptions& options,
                              const Log& log) {
  DT_TRY(data::ImageFolder folder, data::list_folder(root, options.recursive, options.extensions));
  for (const auto& [directory, label] : folder.labels) log.info("{} {}", directory, label);
  if (folder.entries.empty()) {
    return fail(Code::kNotFound, "{}: no images ({}){}", root, fmt::join(options.extensions, " "),
                options.recursive ? "" : "; --recursive also lists its subdirectories, each with its own label");
  }
  const std::string path = prefix + std::string(kListSuffix);
  const size_t count = folder.entries.size();
  DT_TRY_VOID(write_file_atomic(path, data::list_text(in_order(std::move(folder.entries), options.shuffle))));
  log.info("listed {} images of {} in '{}'", count, root, path);
  return path;
}

}  // namespace

Result<> im2rec_list(const std::string& list, const std::string& root, const std::string& out,
                     const Im2recOptions& options, const Log& log) {
  DT_TRY(const std::string text, read_file(list, kDataBytesMax));
  const std::vector<data::ListEntry> entries = data::parse_list(text, list, log);
  if (entries.empty()) return fail(Code::kData, "{}: the list contains no images", list);
  DT_TRY(const data::PackReport report, data::pack_images(entries, root, out, options.pack, log), "packing '{}'", list);
  log.info("packed {} images of '{}' into '{}', skipped {}", report.packed, list, out, report.skipped);
  return {};
}

Result<> im2rec_prefix(const std::string& prefix, const std::string& root, const Im2recOptions& options,
                       const Log& log) {
  DT_TRY_VOID(data::check(options.pack));
  std::vector<std::string> lists = options.list ? std::vector<std::string>() : find_lists(prefix);
  if (lists.empty()) {
    DT_TRY(const std::string list, make_list(prefix, root, options, log));
    if (options.list) return {};
    lists.push_back(list);
  }
  for (const std::string& list : lists) {
    const std::string out = list.substr(0, list.size() - kListSuffix.size()) + ".rec";
    DT_TRY_VOID(im2rec_list(list, root, out, options, log));
  }
  return {};
}

namespace {

Result<int> parse_int(std::string_view key, std::string_view text) {
  int value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return fail(Code::kUsage, "{}={}: must be a whole number", key, text);
  }
  return value;
}

Result<bool> parse_switch(std::string_view key, std::string_view text) {
  if (text != "0" && text != "1") return fail(Code::kUsage, "{}={}: must be 0 or 1", key, text);
  return text == "1";
}

}  // namespace

Result<> apply_im2rec_key(std::string_view key_value, Im2recOptions& options) {
  const size_t sign = std::min(key_value.find('='), key_value.size());
  const std::string_view key = key_value.substr(0, sign);
  const std::string_view value = key_value.substr(std::min(sign + 1, key_value.size()));
  if (key == "encoding") {
    options.pack.encoding = value;
  } else if (key == "unchanged") {
    DT_TRY(options.pack.pass_through, parse_switch(key, value));
  } else if (key == "center_crop") {
    DT_TRY(options.pack.center_crop, parse_switch(key, value));
  } else if (key == "pack_label") {
    DT_TRY(options.pack.pack_label, parse_switch(key, value));
  } else if (key == "color") {
    DT_TRY(options.pack.color, parse_int(key, value));
  } else if (key == "quality") {
    DT_TRY(options.pack.quality, parse_int(key, value));
  } else if (key == "num_thread") {
    DT_TRY(options.pack.threads, parse_int(key, value));
  } else if (key == "resize") {
    DT_TRY(const int edge, parse_int(key, value));
    options.pack.resize = std::max(edge, 0);  // MXNet's im2rec uses -1 for off
  } else {
    return fail(Code::kUsage,
                "'{}': unknown argument; use color, resize, center_crop, quality, encoding, unchanged, pack_label and "
                "num_thread, "
                "each with "
                "=VALUE",
                key_value);
  }
  return data::check(options.pack);
}

}  // namespace dtrain::tools
