#include "dataset/im2rec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/printable.h"
#include "data/records/image_list.h"
#include "data/records/record_index.h"
#include "data/sources/image_directory.h"

namespace dtrain::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListSuffix = ".lst";

// The suffix of a file that exists while the lists are being created. If it is still there, an interrupted run has
// created only some of the lists.
constexpr std::string_view kUnfinished = ".lst.partial";

// Returns all files PREFIX*.lst, sorted by name; or, if PREFIX is a directory, all lists in it.
std::vector<std::string> lists_at(const fs::path& path, bool inside) {
  std::error_code error;
  const fs::path directory = inside ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string begin = inside ? "" : path.filename().string();
  std::vector<std::string> lists;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(kListSuffix) || !entry.is_regular_file(error)) continue;
    lists.push_back((inside || path.has_parent_path() ? directory / name : fs::path(name)).string());
  }
  std::ranges::sort(lists);
  return lists;
}

// If `prefix` is a directory that contains lists, returns these. Otherwise returns the lists whose paths begin with
// `prefix`, such as images.lst next to a directory `images`.
std::vector<std::string> find_lists(const std::string& prefix) {
  std::error_code ignored;
  if (fs::is_directory(prefix, ignored)) {
    std::vector<std::string> inside = lists_at(prefix, true);
    if (!inside.empty()) return inside;
  }
  return lists_at(prefix, false);
}

std::vector<data::ListEntry> in_order(std::vector<data::ListEntry> entries, bool shuffle) {
  if (!shuffle) return entries;
  std::vector<data::ListEntry> shuffled;
  for (const int64_t i : data::python_shuffle(static_cast<int64_t>(entries.size()))) {
    shuffled.push_back(std::move(entries[static_cast<size_t>(i)]));
  }
  return shuffled;
}

Result<> write_lists(const std::string& prefix, const std::string& root, const std::vector<NamedList>& lists,
                     const Log& log) {
  for (const NamedList& list : lists) {
    const std::string path = prefix + list.suffix + std::string(kListSuffix);
    DT_TRY_VOID(write_file_atomic(path, data::list_text(list.entries)));
    log.info("listed {} images of {} in '{}'", list.entries.size(), root, path);
  }
  return {};
}

// Checks that each extension is in lower case and begins with its dot, because files' extensions are compared in this
// form.
Result<> check_extensions(const std::vector<std::string>& extensions) {
  for (const std::string& extension : extensions) {
    const bool has_capitals = std::ranges::any_of(extension, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (extension.starts_with('.') && !has_capitals) continue;
    return fail(Code::kUsage,
                "--exts {}: give each extension with its dot and in lower case; .jpg, for example, also includes .JPG",
                extension);
  }
  return {};
}

// Warns if val_fraction is used and some class has a single image, which cannot be in both lists.
void warn_of_single_images(const data::ImageDirectory& found, const Im2recOptions& options, const Log& log) {
  if (options.division.val_fraction == 0) return;
  std::map<float, int64_t> counts;
  for (const data::ListEntry& entry : found.entries) counts[entry.labels.front()]++;
  std::vector<std::string> single;
  for (const auto& [directory, label] : found.labels) {
    if (counts[static_cast<float>(label)] == 1) single.push_back(directory);
  }
  if (single.empty()) return;
  log.warn("{}: {} only one image, which is used for training, so no image of {} is used for validation",
           fmt::join(single, ", "), single.size() == 1 ? "this class has" : "each of these classes has",
           single.size() == 1 ? "this class" : "these classes");
}

// The directories in `root` from which no image was listed.
Result<std::vector<std::string>> directories_without_image(const std::string& root, const data::ImageDirectory& found) {
  std::set<std::string> listed;
  for (const auto& [directory, label] : found.labels) listed.insert(fs::path(directory).begin()->string());
  DT_TRY(std::vector<std::string> names, data::directories_in(root));
  std::erase_if(names, [&](const std::string& name) { return listed.contains(name); });
  return names;
}

// A message about the files and directories that the list leaves out: "left out: 3 .jfif (an image), 1 .webp; no image
// of: cat". Empty if nothing is left out.
Result<std::string> left_out_text(const std::string& root, const data::ImageDirectory& found,
                                  const data::OtherFiles& others, bool recursive) {
  std::vector<std::string> parts;
  if (!others.empty()) parts.push_back("left out: " + data::to_text(others));
  const bool has_images = std::ranges::any_of(
      others, [](const auto& other) { return other.first.starts_with('.') && other.first.ends_with("(an image)"); });
  if (has_images) parts.emplace_back("--exts includes images with other extensions");
  if (recursive) {
    DT_TRY(const std::vector<std::string> absent, directories_without_image(root, found));
    if (!absent.empty()) parts.push_back(fmt::format("no image of: {}", fmt::join(absent, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

// Creates PREFIX.lst, or the several lists that replace it if it is divided, from the images in `root`.
Result<> make_lists(const std::string& prefix, const std::string& root, const Im2recOptions& options, const Log& log,
                    const Im2recHost& host) {
  DT_TRY_VOID(check_extensions(options.extensions));
  data::OtherFiles others;
  DT_TRY(data::ImageDirectory found,
         data::list_directory(root, options.recursive, options.extensions,
                              [&](const auto& entry) { data::count_unlisted(entry, others); }));
  for (const auto& [directory, label] : found.labels) host.print(fmt::format("{} {}", directory, label));
  for (const std::string& path : found.left_out) {
    log.warn(
        "'{}': left out, because a list cannot contain this name: it contains a tab or a line break, or begins or ends "
        "with a blank",
        path);
  }
  DT_TRY(const std::string left_out, left_out_text(root, found, others, options.recursive));
  if (found.entries.empty()) {
    return fail(Code::kNotFound, "{}: there are no images ({}){}{}{}", root, fmt::join(options.extensions, " "),
                left_out.empty() ? "" : "; ", left_out,
                options.recursive
                    ? ""
                    : "; --recursive also lists the images in subdirectories, with a label for each subdirectory");
  }
  if (!left_out.empty()) log.warn("{}: {}", root, printable(left_out));
  warn_of_single_images(found, options, log);
  const std::string directory = fs::path(prefix).parent_path().string();
  if (!directory.empty()) DT_TRY_VOID(make_directories(directory));
  const auto lists = divide_list(in_order(std::move(found.entries), options.shuffle), options.division);
  if (lists.size() == 1) return write_lists(prefix, root, lists, log);
  const std::string mark = prefix + std::string(kUnfinished);
  DT_TRY_VOID(write_file_atomic(mark, options.list ? "list" : "pack"));
  DT_TRY_VOID(write_lists(prefix, root, lists, log));
  std::error_code absent;
  fs::remove(mark, absent);
  return {};
}

// The flags about the creation of a list that differ from their defaults: "--recursive, --chunks".
std::string listing_flags(const Im2recOptions& options) {
  const Im2recOptions defaults;
  const std::pair<const char*, bool> given[] = {
      {"--recursive", options.recursive},
      {"--no-shuffle", !options.shuffle},
      {"--exts", options.extensions != defaults.extensions},
      {"--chunks", options.division.chunks != defaults.division.chunks},
      {"--train-ratio", options.division.train_ratio != defaults.division.train_ratio},
      {"--test-ratio", options.division.test_ratio != defaults.division.test_ratio},
      {"--val-fraction", options.division.val_fraction != defaults.division.val_fraction},
      {"--seed", options.division.seed != defaults.division.seed},
  };
  std::vector<std::string_view> names;
  for (const auto& [name, is_given] : given) {
    if (is_given) names.emplace_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Warns that existing lists are packed unchanged, without regard to the flags about creating lists: an interrupted run
// can then continue, and edited lists are kept.
void warn_of_present_lists(const std::vector<std::string>& lists, const Im2recOptions& options, const Log& log) {
  const std::string flags = listing_flags(options);
  if (flags.empty()) return;
  log.warn("'{}'{} already exists, so {} has no effect; to list the images again, delete the existing lists",
           lists.front(), lists.size() > 1 ? fmt::format(" (as well as {} other lists)", lists.size() - 1) : "", flags);
}

// Returns the lists to pack. Creates them if there are none.
Result<std::vector<std::string>> prepare_lists(const std::string& prefix, const std::string& root,
                                               const Im2recOptions& options, const Log& log, const Im2recHost& host) {
  std::error_code error;
  const std::string mark = prefix + std::string(kUnfinished);
  const bool unfinished = fs::exists(mark, error);
  if (unfinished && read_file(mark).value_or("") == "list") {
    return fail(Code::kUsage,
                "some of the lists {}*.lst are missing, because the run with --list that writes them was interrupted: "
                "repeat that run, then pack the lists (or delete '{}' if the lists are complete)",
                prefix, mark);
  }
  std::vector<std::string> lists = find_lists(prefix);
  if (!unfinished && !lists.empty()) {
    warn_of_present_lists(lists, options, log);
    return lists;
  }
  DT_TRY_VOID(make_lists(prefix, root, options, log, host));
  return find_lists(prefix);
}

// Removes slashes at the end, as Python's abspath() does.
std::string trimmed(std::string prefix) {
  while (prefix.size() > 1 && prefix.ends_with('/')) prefix.pop_back();
  return prefix;
}

std::string out_name(const std::string& out, const Im2recOptions& options) {
  return options.nsplit > 1 ? fmt::format("{}.part{:03}", out, options.part) : out;
}

// Checks the output before packing, which can take hours and would otherwise end with an error or overwrite the list.
Result<> check_out(const std::string& list, const std::string& out) {
  std::error_code error;
  if (fs::is_directory(out, error)) {
    return fail(Code::kUsage, "'{}' is a directory; name the record file, such as '{}'", out,
                (fs::path(out) / fs::path(list).stem()).string() + ".rec");
  }
  for (const std::string& written : {out, data::index_path(out)}) {
    if (fs::equivalent(list, written, error)) {
      return fail(Code::kUsage, "'{}' would be written over the list '{}'; name another record file, such as '{}'",
                  written, list, fs::path(list).replace_extension(".rec").string());
    }
  }
  return {};
}

// Checks that the directory exists. Otherwise each image of the list would be skipped with a separate warning.
Result<> check_root(const std::string& root) {
  std::error_code error;
  if (root.empty() || fs::is_directory(root, error)) return {};
  if (fs::exists(root, error)) {
    return fail(Code::kUsage, "ROOT '{}' is not a directory; give the directory with the list's images", root);
  }
  return fail(Code::kNotFound, "ROOT '{}': there is no such directory; give the directory with the list's images",
              root);
}

// Returns the number of images packed.
Result<int64_t> pack_list(const std::string& list, const std::string& root, const std::string& out,
                          const Im2recOptions& options, const Log& log, const PackRun& run) {
  DT_TRY_VOID(check_out(list, out));
  DT_TRY(const std::string text, read_file(list, kDataBytesMax));
  const std::string_view lines = part_of_lines(text, options.part, options.nsplit);
  std::vector<data::ListEntry> entries;
  if (options.label_width > 0) {
    DT_TRY(entries, data::parse_list_of_width(lines, list, options.label_width, log));
  } else {
    entries = data::parse_list(lines, list, log);
  }
  const auto is_relative = [](const data::ListEntry& entry) { return !entry.path.starts_with('/'); };
  if (std::ranges::any_of(entries, is_relative)) DT_TRY_VOID(check_root(root));
  if (entries.empty()) {
    const bool is_part = options.nsplit > 1 && !text.empty();
    return fail(Code::kData, "{}: {} no images", list,
                is_part ? fmt::format("part {} of {} has", options.part, options.nsplit) : "the list contains");
  }
  DT_TRY(const PackReport report, pack_images(entries, root, out, options.pack, log, run), "packing '{}'", list);
  log.info("packed {} images of '{}' into '{}', skipped {}", report.packed, list, out, report.skipped);
  return report.packed;
}

struct PackedFile {
  std::string name;
  int64_t images = 0;
};

// If there are several record files, logs the number of images in each of them and how to train on all of them.
void log_packed_files(const std::vector<PackedFile>& files, const std::string& prefix, const Log& log) {
  if (files.size() < 2) return;
  std::vector<std::string> counts;
  counts.reserve(files.size());
  for (const PackedFile& file : files) counts.push_back(fmt::format("{} in '{}'", file.images, file.name));
  const auto find = [&](std::string_view set) {
    return std::ranges::find(files, fmt::format("{}{}.rec", prefix, set), &PackedFile::name) != files.end();
  };
  const std::string advice = find("_train") && find("_val")
                                 ? fmt::format("; train with --data-train {0}_train.rec --data-val {0}_val.rec", prefix)
                                 : "";
  log.info("images: {}{}", fmt::join(counts, ", "), advice);
}

}  // namespace

Result<> check(const Im2recOptions& options) {
  DT_TRY_VOID(check(options.pack));
  DT_TRY_VOID(check(options.division));
  if (options.division.seed != 0 && options.division.val_fraction == 0) {
    return fail(Code::kUsage, "--seed has an effect only with --val-fraction");
  }
  constexpr int kLabelsMax = 1 << 16, kPartsMax = 1000;  // the number of a part has three digits in its file name
  if (options.label_width < 0 || options.label_width > kLabelsMax) {
    return fail(Code::kUsage, "label-width {}: must be from 1 to {}", options.label_width, kLabelsMax);
  }
  if (options.pack.pack_label && options.label_width == 1) {
    return fail(Code::kUsage, "pack-label has no effect with label-width 1; give the number of labels in the list");
  }
  if (options.nsplit < 1 || options.nsplit > kPartsMax) {
    return fail(Code::kUsage, "nsplit {}: must be from 1 to {}", options.nsplit, kPartsMax);
  }
  if (options.part < 0 || options.part >= options.nsplit) {
    return fail(Code::kUsage, "part {}: must be from 0 to nsplit - 1, which is {}", options.part, options.nsplit - 1);
  }
  return {};
}

Result<> im2rec_list(const std::string& list, const std::string& root, const std::string& out,
                     const Im2recOptions& options, const Log& log, const Im2recHost& host) {
  DT_TRY_VOID(check(options));
  const std::string flags = listing_flags(options);
  if (options.list || !flags.empty()) {
    return fail(Code::kUsage, "{} has an effect only when a list is written, but '{}' already is a list; leave it out",
                options.list ? "--list" : flags, list);
  }
  DT_TRY_VOID(pack_list(list, root, out_name(out, options), options, log, {.stop = host.stop}));
  return {};
}

Result<> im2rec_prefix(const std::string& given_prefix, const std::string& root, const Im2recOptions& given,
                       const Log& log, const Im2recHost& host) {
  DT_TRY_VOID(check(given));
  Im2recOptions options = given;
  options.pack.label_in_header = false;  // for several labels, the label in the header is 0, as im2rec.py writes it
  const std::string prefix = trimmed(given_prefix);
  if (options.list) return make_lists(prefix, root, options, log, host);
  DT_TRY(const std::vector<std::string> lists, prepare_lists(prefix, root, options, log, host));
  std::vector<PackedFile> files;
  for (const std::string& list : lists) {
    std::error_code error;
    // The list may be empty: a small data set may have no images for testing, for example.
    if (lists.size() > 1 && fs::file_size(list, error) == 0) {
      log.warn("{}: the list is empty; nothing is packed from it", list);
      continue;
    }
    const std::string name = out_name(list.substr(0, list.size() - kListSuffix.size()) + ".rec", options);
    DT_TRY(const int64_t images, pack_list(list, root, name, options, log, {.stop = host.stop, .keeps_journal = true}));
    files.push_back({name, images});
  }
  for (const PackedFile& file : files) PackedRecords::forget(file.name);
  log_packed_files(files, prefix, log);
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

struct SwitchKey {
  std::string_view name;
  bool& (*value)(Im2recOptions&);
};
constexpr SwitchKey kSwitchKeys[] = {
    {"center_crop", [](Im2recOptions& options) -> bool& { return options.pack.center_crop; }},
    {"pack_label", [](Im2recOptions& options) -> bool& { return options.pack.pack_label; }},
    {"raw", [](Im2recOptions& options) -> bool& { return options.pack.raw; }},
    {"unchanged", [](Im2recOptions& options) -> bool& { return options.pack.pass_through; }},
};

struct NumberKey {
  std::string_view name;
  void (*set)(Im2recOptions&, int);
};
constexpr NumberKey kNumberKeys[] = {
    {"color", [](Im2recOptions& options, int value) { options.pack.color = value; }},
    {"inter_method", [](Im2recOptions& options, int value) { options.pack.inter_method = value; }},
    {"label_width", [](Im2recOptions& options, int value) { options.label_width = value == 0 ? -1 : value; }},
    {"nsplit", [](Im2recOptions& options, int value) { options.nsplit = value; }},
    {"num_thread", [](Im2recOptions& options, int value) { options.pack.threads = value; }},
    {"part", [](Im2recOptions& options, int value) { options.part = value; }},
    {"quality", [](Im2recOptions& options, int value) { options.pack.quality = value; }},
    // MXNet's im2rec uses -1 to turn an option off.
    {"resize", [](Im2recOptions& options, int value) { options.pack.resize = std::max(value, 0); }},
    {"restart_interval", [](Im2recOptions& options, int value) { options.pack.restart_interval = value; }},
};

}  // namespace

Result<> apply_im2rec_key(std::string_view key_value, Im2recOptions& options) {
  const size_t sign = std::min(key_value.find('='), key_value.size());
  const std::string_view key = key_value.substr(0, sign);
  const std::string_view value = key_value.substr(std::min(sign + 1, key_value.size()));
  std::vector<std::string_view> known = {"encoding"};
  if (key == "encoding") {
    options.pack.encoding = value;
    return {};
  }
  for (const SwitchKey& row : kSwitchKeys) {
    known.push_back(row.name);
    if (row.name != key) continue;
    DT_TRY(row.value(options), parse_switch(key, value));
    return {};
  }
  for (const NumberKey& row : kNumberKeys) {
    known.push_back(row.name);
    if (row.name != key) continue;
    DT_TRY(const int number, parse_int(key, value));
    row.set(options, number);
    return {};
  }
  return fail(Code::kUsage, "'{}': unknown argument; use {}, each with =VALUE", key_value, fmt::join(known, ", "));
}

}  // namespace dtrain::dataset
