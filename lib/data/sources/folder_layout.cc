#include "data/sources/folder_layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "base/printable.h"
#include "data/sources/picture_folder.h"

namespace dtrain::data {
namespace {

// What a name may say that a folder is; the validation set is the first of those after kTraining that is there.
enum class Part { kTraining, kValidation, kDevelopment, kEvaluation, kTest };

// The words of a name, in lower case: "seg_Train", "TrainImages2017" -> {"seg", "train"}, {"train", "images"}.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  char before = '0';
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    const bool begins = std::isalpha(static_cast<unsigned char>(before)) == 0 ||
                        (std::islower(static_cast<unsigned char>(before)) != 0 && std::isupper(letter) != 0);
    before = c;
    if (std::isalpha(letter) == 0) continue;
    if (begins) words.emplace_back();
    words.back().push_back(static_cast<char>(std::tolower(letter)));
  }
  return words;
}

std::optional<Part> part_of(std::string_view name) {
  static const std::map<std::string_view, Part> kParts = {
      {"train", Part::kTraining},        {"training", Part::kTraining},
      {"val", Part::kValidation},        {"valid", Part::kValidation},
      {"validation", Part::kValidation}, {"dev", Part::kDevelopment},
      {"eval", Part::kEvaluation},       {"test", Part::kTest},
      {"testing", Part::kTest}};
  for (const std::string& word : words_of(name)) {
    if (const auto found = kParts.find(word); found != kParts.end()) return found->second;
  }
  return std::nullopt;
}

bool has_word(std::string_view name, std::initializer_list<std::string_view> wanted) {
  return std::ranges::any_of(words_of(name),
                             [&](const std::string& word) { return std::ranges::find(wanted, word) != wanted.end(); });
}

// Takes out what describes images rather than being some: beside "images", folders called annotations, masks and so on.
std::vector<std::string> take_descriptions(std::vector<std::string>& names) {
  const auto has_images = [](const std::string& name) {
    return has_word(name, {"image", "images", "img", "imgs", "jpegimages", "photos", "pictures"});
  };
  const auto describes = [&](const std::string& name) {
    return !has_images(name) && has_word(name, {"annotation", "annotations", "annots", "label", "labels", "mask",
                                                "masks", "segmentation", "segmentations", "trimaps"});
  };
  std::vector<std::string> taken;
  if (std::ranges::none_of(names, has_images)) return taken;
  std::ranges::copy_if(names, std::back_inserter(taken), describes);
  std::erase_if(names, describes);
  return taken;
}

std::string in(const std::string& directory, const std::string& name) {
  return (std::filesystem::path(directory) / name).string();
}

// A folder with pictures, and the class folders that it may have.
struct Candidate {
  std::string name;           // in the directory that is looked at
  std::string path;           // of the folder, or of the only one in it, if that has the class folders
  bool has_pictures = false;  // of its own
  std::vector<std::string> classes, without_pictures;
  std::optional<Part> part;

  [[nodiscard]] bool may_be_part() const { return !has_pictures && !classes.empty(); }
};

Result<Candidate> candidate_of(const std::string& directory, const std::string& name) {
  Candidate folder{
      .name = name, .path = in(directory, name), .classes = {}, .without_pictures = {}, .part = part_of(name)};
  for (;;) {
    folder.has_pictures = has_own_picture(folder.path);
    DT_TRY(ClassFolders inside, class_folders(folder.path));
    folder.classes = std::move(inside.classes);
    folder.without_pictures = std::move(inside.without_pictures);
    if (folder.has_pictures || folder.classes.size() != 1) return folder;
    const std::string inner = in(folder.path, folder.classes[0]);
    DT_TRY(const ClassFolders deeper, class_folders(inner));
    if (has_own_picture(inner) || deeper.classes.empty()) return folder;
    folder.path = inner;
  }
}

// One folder of the same name in each may be a habit of those who made the set: "images" in every class.
bool are_equal(const Candidate& a, const Candidate& b) {
  return &a != &b && a.may_be_part() && b.may_be_part() && a.classes.size() > 1 && a.classes == b.classes;
}

bool shares_classes(const Candidate& folder, const Candidate& training) {
  return std::ranges::any_of(
      folder.classes, [&](const std::string& name) { return std::ranges::binary_search(training.classes, name); });
}

// Whether the names say so and nothing speaks against it: the training data have classes, and every other folder is
// called as another part is and has pictures without classes (perhaps in one folder), or some of these classes.
bool are_named_parts(const std::vector<Candidate>& folders) {
  const auto is_training = [](const Candidate& folder) { return folder.part == Part::kTraining; };
  const auto training = std::ranges::find_if(folders, is_training);
  if (training == folders.end() || !training->may_be_part() || folders.size() < 2) return false;
  return std::ranges::all_of(folders, [&](const Candidate& folder) {
    if (&folder == &*training) return true;
    const bool is_other = folder.part && *folder.part != Part::kTraining;
    return is_other && (folder.has_pictures || folder.classes.size() == 1 || shares_classes(folder, *training));
  });
}

bool are_parts(const std::vector<Candidate>& folders) {
  const auto has_equal = [&](const Candidate& folder) {
    return std::ranges::any_of(folders, [&](const Candidate& other) { return are_equal(folder, other); });
  };
  return std::ranges::any_of(folders, has_equal) || are_named_parts(folders);
}

std::string names_of(const std::vector<Candidate>& folders) {
  std::vector<std::string> names;
  names.reserve(folders.size());
  for (const Candidate& folder : folders) names.push_back(printable(folder.name));
  constexpr size_t kShown = 8;
  const bool cut = names.size() > kShown;
  if (cut) names.resize(kShown);
  return fmt::format("{}{}", fmt::join(names, ", "), cut ? " and others" : "");
}

void leave_out_empty(const Candidate& folder, FolderLayout& layout) {
  for (const std::string& name : folder.without_pictures) layout.left_out.push_back(in(folder.name, name));
}

// Chooses the parts by their names.
Result<FolderLayout> parts_by_name(const std::string& directory, const std::vector<Candidate>& folders,
                                   FolderLayout layout) {
  std::vector<const Candidate*> trainings;
  for (const Candidate& folder : folders) {
    if (folder.part == Part::kTraining && folder.may_be_part()) trainings.push_back(&folder);
  }
  if (trainings.size() != 1) {
    return fail(Code::kUsage,
                "{0}: the folders {1} have no pictures of their own and the same folders in them, so they seem to be "
                "parts of a data set, but {2} is called 'train': name the parts with --data-train {0}/... and "
                "--data-val {0}/...; if they are classes, give --data-train {0}",
                directory, names_of(folders), trainings.empty() ? "none" : "more than one");
  }
  const Candidate* training = trainings[0];
  const Candidate* validation = nullptr;
  for (const Candidate& folder : folders) {
    const bool may_validate = &folder != training && folder.part && folder.may_be_part();
    if (!may_validate || !shares_classes(folder, *training)) continue;
    if (validation == nullptr || *folder.part < *validation->part) validation = &folder;
  }
  layout.training = training->path;
  layout.classes = training->classes;
  leave_out_empty(*training, layout);
  if (validation != nullptr) {
    layout.validation = validation->path;
    leave_out_empty(*validation, layout);
  }
  for (const Candidate& folder : folders) {
    if (&folder != training && &folder != validation) layout.left_out.push_back(folder.name);
  }
  std::ranges::sort(layout.left_out);
  return layout;
}

void warn_of_names(const std::vector<Candidate>& folders, FolderLayout& layout) {
  const auto named = [&](auto is_part) {
    return std::ranges::find_if(folders, [&](const Candidate& folder) { return folder.part && is_part(*folder.part); });
  };
  const auto training = named([](Part part) { return part == Part::kTraining; });
  const auto other = named([](Part part) { return part != Part::kTraining; });
  if (training == folders.end() || other == folders.end()) return;
  layout.warnings.push_back(
      fmt::format("{0}: '{1}' and '{2}' are taken for classes, because they do not have the same folders in them; if "
                  "they are parts of a data set, name them with --data-train {0}/{1} and --data-val {0}/{2}",
                  layout.training, printable(training->name), printable(other->name)));
}

}  // namespace

Result<FolderLayout> folder_layout(const std::string& directory) {
  FolderLayout layout{.training = directory};
  DT_TRY(ClassFolders tops, class_folders(directory));
  layout.left_out = tops.without_pictures;
  std::ranges::copy(take_descriptions(tops.classes), std::back_inserter(layout.left_out));
  if (tops.classes.empty()) {
    if (layout.left_out.empty()) return fail(Code::kNotFound, "{}: there are no folders in it", directory);
    DT_TRY(const OtherFiles others, files_beside_classes(directory));
    return tl::unexpected(no_pictures(directory, others));
  }
  std::vector<Candidate> folders;
  for (const std::string& name : tops.classes) {
    DT_TRY(Candidate folder, candidate_of(directory, name));
    folders.push_back(std::move(folder));
  }
  if (folders.size() == 1 && folders[0].may_be_part() && !has_own_picture(directory)) {
    layout.training = folders[0].path;
    layout.classes = folders[0].classes;
    if (folders[0].part == Part::kTraining) {
      leave_out_empty(folders[0], layout);
      return layout;
    }
    DT_TRY(FolderLayout inside, folder_layout(folders[0].path));
    inside.left_out.insert(inside.left_out.end(), layout.left_out.begin(), layout.left_out.end());
    return inside;
  }
  if (are_parts(folders)) return parts_by_name(directory, folders, std::move(layout));
  layout.classes = tops.classes;
  warn_of_names(folders, layout);
  return layout;
}

}  // namespace dtrain::data
