// Image files in directories: JPEG and PNG files, whatever they are called.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

// The number of files that are left out, indexed by their kind: ".webp", "broken links". Hidden files, texts and system
// files of Windows (Thumbs.db, desktop.ini) are not counted.
using OtherFiles = std::map<std::string, int64_t>;

struct ListedImages {
  std::vector<std::string> images;  // paths relative to the directory, in the order of list_directory
  OtherFiles others;
};
// The images in a directory, at any depth. Directories whose names begin with a dot, and links to parent directories,
// are not entered. A file with a usual extension (.jpg, .jpeg, .png) is an image; for any other file, the first bytes
// decide. Code::kNotFound: there is no such directory.
Result<ListedImages> list_images(const std::string& directory);

// Counts an entry that a listing by extensions skips (list_directory). An image is counted as ".jpe (an image)".
void count_unlisted(const std::filesystem::directory_entry& entry, OtherFiles& others);

// has_own_image: whether there is an image in the directory itself; has_image: whether there is one at any depth. False
// if the directory cannot be read.
bool has_own_image(const std::string& directory);
bool has_image(const std::string& directory);

// The names of the directories in `root`, in byte order, without those that begin with a dot. Links to directories are
// included. Code::kNotFound: there is no directory `root`.
Result<std::vector<std::string>> directories_in(const std::string& root);

// Directories that have images, so that they are classes, and directories that have none.
struct ClassDirectories {
  std::vector<std::string> classes, without_images;
};
// Finds the class directories in `root`. Code::kNotFound: there is no such directory; kData: the name of a class
// contains a line break.
Result<ClassDirectories> class_directories(const std::string& root);

// The files in `root` that are not part of class directories: files in `root` itself, and files in directories without
// an image, except for the directories `counted`. Code::kNotFound: there is no directory `root`.
Result<OtherFiles> files_beside_classes(const std::string& root, const std::vector<std::string>& counted = {});

// "ROOT: the directories in it have no JPEG or PNG files (but 4 .webp): ...". `others` may be empty.
Error no_images(const std::string& root, const OtherFiles& others);

void add(const OtherFiles& more, OtherFiles& others);
// "4 .webp, 1 broken links"; "" if there are no other files.
std::string to_text(const OtherFiles& others);

}  // namespace dtrain::data
