// Lists of image files, `.lst`: one line per image, "index TAB label [TAB label ...] TAB relative/path".
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::data {

struct ListEntry {
  uint64_t id = 0;
  std::vector<float> labels;
  std::string path;  // path of the image, relative to the list's root

  bool operator==(const ListEntry&) const = default;
};

// Parses the id at the beginning of a line. An id written by pandas may end in ".0". 2^64 is added to a negative id, as
// in MXNet's im2rec, which reads it as an unsigned number. Nullopt: not an integer.
std::optional<uint64_t> parse_list_id(std::string_view text);

// The text of a list. Labels are printed with %f.
std::string list_text(const std::vector<ListEntry>& entries);

// Parses a list. A line with a TAB is split at its TABs. Any other line is split at blanks into index, one label, and
// the path, which is the rest. Lines that do not parse are skipped and reported to `log` with their numbers.
std::vector<ListEntry> parse_list(std::string_view text, const std::string& name, const Log& log);
// Like parse_list, for a list with `label_width` labels on each line, separated by TABs or blanks. Code::kData, with
// the line, if a line begins with an index and a label, but has another number of labels.
Result<std::vector<ListEntry>> parse_list_of_width(std::string_view text, const std::string& name, int label_width,
                                                   const Log& log);

struct ImageDirectory {
  std::vector<ListEntry> entries;                   // ids are consecutive numbers in this order
  std::vector<std::pair<std::string, int>> labels;  // if recursive: each directory relative to the root, with its label
  std::vector<std::string> left_out;                // images whose paths cannot be written into a list
};
// Lists the images of a directory, by name. Not recursive: all have label 0. Recursive: the images of a directory come
// before those of its subdirectories, and links are followed; directories get the labels 0, 1, ... in the order in
// which their first image is found. `extensions`, such as ".jpg", are compared with the lower-case extension of each
// file. `pass_over`, if given, is called for every entry that is neither a directory nor has one of these extensions.
Result<ImageDirectory> list_directory(
    const std::string& root, bool recursive, const std::vector<std::string>& extensions,
    const std::function<void(const std::filesystem::directory_entry&)>& pass_over = {});

// Used instead of a list of extensions: decides which directories are entered, and which other entries (files, broken
// links) are images.
struct DirectoryFilter {
  std::function<bool(const std::filesystem::directory_entry&)> enters, takes;
};
// Like list_directory above, with the same order, but `filter` chooses the images and directories. `left_out` stays
// empty.
Result<ImageDirectory> list_directory(const std::string& root, bool recursive, const DirectoryFilter& filter);

// True if `path` is the directory or lies in it. Both are canonical.
bool is_in(const std::filesystem::path& path, const std::filesystem::path& directory);

// 0 .. n-1 in the order that Python 3's random.seed(100); random.shuffle(list) gives, which is the order of im2rec.py's
// lists.
std::vector<int64_t> python_shuffle(int64_t n);

}  // namespace dtrain::data
