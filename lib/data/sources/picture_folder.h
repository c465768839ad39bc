// Picture files in folders: JPEG and PNG files, whatever their names.
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

struct ListedPictures {
  std::vector<std::string> pictures;  // relative to the folder, in the order of list_folder
  OtherFiles others;
};
// The pictures in a folder, at any depth; folders whose names begin with a dot, and links to folders above, are not
// entered. A file with a usual extension (.jpg, .jpeg, .png) is a picture; of any other, the first bytes say it.
// Code::kNotFound.
Result<ListedPictures> list_pictures(const std::string& folder);

// Counts an entry that a list by extensions passes over (list_folder). A picture is called ".jpe (a picture)".
void count_unlisted(const std::filesystem::directory_entry& entry, OtherFiles& others);

// Whether there is a picture in the folder itself, or at any depth. False if the folder cannot be read.
bool has_own_picture(const std::string& folder);
bool has_picture(const std::string& folder);

// The names of the folders in `root`, in the order of their bytes; without those that begin with a dot. Links count.
// Code::kNotFound.
Result<std::vector<std::string>> folders_in(const std::string& root);

// Folders that are classes, because they have pictures, and those that have none.
struct ClassFolders {
  std::vector<std::string> classes, without_pictures;
};
// Code::kNotFound: there is no such folder; kData: the name of a class has a line break.
Result<ClassFolders> class_folders(const std::string& root);

// What lies in `root` besides the pictures of class folders: its own files, and those of folders without a picture,
// except the folders `counted`. Code::kNotFound.
Result<OtherFiles> files_beside_classes(const std::string& root, const std::vector<std::string>& counted = {});

// "ROOT: the folders in it have no JPEG or PNG files (but 4 .webp): ...". `others` may be empty.
Error no_pictures(const std::string& root, const OtherFiles& others);

void add(const OtherFiles& more, OtherFiles& others);
// "4 .webp, 1 broken links"; "" without any.
std::string to_text(const OtherFiles& others);

}  // namespace dtrain::data
