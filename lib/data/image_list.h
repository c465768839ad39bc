// Lists of image files, `.lst`: one line per image, "index TAB label [TAB label ...] TAB
// relative/path".
#pragma once

#include <cstdint>
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
  std::string path;  // relative to the list's root

  bool operator==(const ListEntry&) const = default;
};

// Indices as they are, labels as %f.
std::string list_text(const std::vector<ListEntry>& entries);

// A line with a TAB is split at its TABs; others at blanks: index, one label, and the rest is the path. What does not
// parse is reported to `log`, with its line, and left out.
std::vector<ListEntry> parse_list(std::string_view text, const std::string& name, const Log& log);

struct ImageFolder {
  std::vector<ListEntry> entries;                   // numbered in this order
  std::vector<std::pair<std::string, int>> labels;  // recursive: (directory relative to the root, its label)
};
// The images of a directory, by name. Flat: label 0. Recursive: a directory's images before its sub-directories, links
// followed, labels 0, 1, ... given to directories in the order in which their first image is met.
// `extensions`, like ".jpg", are compared with the lower-cased ones.
Result<ImageFolder> list_folder(const std::string& root, bool recursive, const std::vector<std::string>& extensions);

// 0 .. n-1 in the order that random.seed(100); random.shuffle(list) of Python 3 gives: the order of im2rec.py's lists.
std::vector<int64_t> python_shuffle(int64_t n);

}  // namespace dtrain::data
