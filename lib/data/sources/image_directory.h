// Image files in directories: JPEG and PNG files, whatever their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

// How many files are left out, by what they are: ".webp", "broken links". Hidden files, texts and those of Windows
// (Thumbs.db, desktop.ini) do not count.
using OtherFiles = std::map<std::string, int64_t>;

struct ListedImages {
  std::vector<std::string> images;  // relative to the directory, in the order of list_directory
  OtherFiles others;
};
// The images in a directory, at any depth; directories whose names begin with a dot, and links to directories above,
// are not entered. A file with a usual extension (.jpg, .jpeg, .png) is an image; of any other, the first bytes say it.
// Code::kNotFound.
Result<ListedImages> list_images(const std::string& directory);

// Counts an entry that a list by extensions passes over (list_directory). An image is called ".jpe (an image)".
void count_unlisted(const std::filesystem::directory_entry& entry, OtherFiles& others);

// Whether there is an image in the directory itself, or at any depth. False if the directory cannot be read.
bool has_own_image(const std::string& directory);
bool has_image(const std::string& directory);

// The names of the directories in `root`, in the order of their bytes; without those that begin with a dot. Links
// count. Code::kNotFound.
Result<std::vector<std::string>> directories_in(const std::string& root);

// Directories that are classes, because they have images, and those that have none.
struct ClassDirectories {
  std::vector<std::string> classes, without_images;
};
// Code::kNotFound: there is no such directory; kData: the name of a class has a line break.
Result<ClassDirectories> class_directories(const std::string& root);

// What lies in `root` besides the images of class directories: its own files, and those of directories without an
// image, except the directories `counted`. Code::kNotFound.
Result<OtherFiles> files_beside_classes(const std::string& root, const std::vector<std::string>& counted = {});

// "ROOT: the directories in it have no JPEG or PNG files (but 4 .webp): ...". `others` may be empty.
Error no_images(const std::string& root, const OtherFiles& others);

void add(const OtherFiles& more, OtherFiles& others);
// "4 .webp, 1 broken links"; "" without any.
std::string to_text(const OtherFiles& others);

}  // namespace dtrain::data
