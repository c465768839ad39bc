#include "data/sources/directory_layout.h"

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
#include "data/sources/image_directory.h"

namespace dtrain::data {
namespace {

// The role that a directory's name indicates. Of the roles after kTraining, the first one that exists is the validation
// set.
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

// Removes and returns the directories that describe images instead of containing them: those called annotations, masks
// and so on, if there is a directory "images".
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

// A directory with images, and the class directories that it may contain.
struct Candidate {
  std::string name;  // path of the directory, relative to the inspected directory
  std::string path;  // path of the directory, or of its only subdirectory if the class directories are in that one
  bool has_images = false;  // the directory contains images directly
  std::vector<std::string> classes, without_images;
  std::optional<Part> part;

  [[nodiscard]] bool may_be_part() const { return !has_images && !classes.empty(); }
};

Result<Candidate> candidate_of(const std::string& directory, const std::string& name) {
  Candidate candidate{
      .name = name, .path = in(directory, name), .classes = {}, .without_images = {}, .part = part_of(name)};
  for (;;) {
    candidate.has_images = has_own_image(candidate.path);
    DT_TRY(ClassDirectories inside, class_directories(candidate.path));
    candidate.classes = std::move(inside.classes);
    candidate.without_images = std::move(inside.without_images);
    if (candidate.has_images || candidate.classes.size() != 1) return candidate;
    const std::string inner = in(candidate.path, candidate.classes[0]);
    DT_TRY(const ClassDirectories deeper, class_directories(inner));
    if (has_own_image(inner) || deeper.classes.empty()) return candidate;
    candidate.path = inner;
  }
}

// Whether both directories have the same classes. A single subdirectory with the same name in each, such as "images" in
// every class, does not count, because it may be a naming habit.
bool are_equal(const Candidate& a, const Candidate& b) {
  return &a != &b && a.may_be_part() && b.may_be_part() && a.classes.size() > 1 && a.classes == b.classes;
}

bool shares_classes(const Candidate& candidate, const Candidate& training) {
  return std::ranges::any_of(
      candidate.classes, [&](const std::string& name) { return std::ranges::binary_search(training.classes, name); });
}

// True if the names indicate parts and the contents do not contradict them: the training data have classes, and every
// other directory is named as another part and has either images without classes (perhaps in one subdirectory) or some
// of these classes.
bool are_named_parts(const std::vector<Candidate>& candidates) {
  const auto is_training = [](const Candidate& candidate) { return candidate.part == Part::kTraining; };
  const auto training = std::ranges::find_if(candidates, is_training);
  if (training == candidates.end() || !training->may_be_part() || candidates.size() < 2) return false;
  return std::ranges::all_of(candidates, [&](const Candidate& candidate) {
    if (&candidate == &*training) return true;
    const bool is_other = candidate.part && *candidate.part != Part::kTraining;
    return is_other && (candidate.has_images || candidate.classes.size() == 1 || shares_classes(candidate, *training));
  });
}

bool are_parts(const std::vector<Candidate>& candidates) {
  const auto has_equal = [&](const Candidate& candidate) {
    return std::ranges::any_of(candidates, [&](const Candidate& other) { return are_equal(candidate, other); });
  };
  return std::ranges::any_of(candidates, has_equal) || are_named_parts(candidates);
}

std::string names_of(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  names.reserve(candidates.size());
  for (const Candidate& candidate : candidates) names.push_back(printable(candidate.name));
  constexpr size_t kShown = 8;
  const bool cut = names.size() > kShown;
  if (cut) names.resize(kShown);
  return fmt::format("{}{}", fmt::join(names, ", "), cut ? " and others" : "");
}

void leave_out_empty(const Candidate& candidate, DirectoryLayout& layout) {
  for (const std::string& name : candidate.without_images) layout.left_out.push_back(in(candidate.name, name));
}

// Chooses the parts by their names.
Result<DirectoryLayout> parts_by_name(const std::string& directory, const std::vector<Candidate>& candidates,
                                      DirectoryLayout layout) {
  std::vector<const Candidate*> trainings;
  for (const Candidate& candidate : candidates) {
    if (candidate.part == Part::kTraining && candidate.may_be_part()) trainings.push_back(&candidate);
  }
  if (trainings.size() != 1) {
    return fail(
        Code::kUsage,
        "{0}: the directories {1} contain the same subdirectories and no images of their own, so they seem to be "
        "parts of a data set, but {2} is called 'train': name the parts with --data-train {0}/... and "
        "--data-val {0}/...; if they are classes, give --data-train {0}",
        directory, names_of(candidates), trainings.empty() ? "none" : "more than one");
  }
  const Candidate* training = trainings[0];
  const Candidate* validation = nullptr;
  for (const Candidate& candidate : candidates) {
    const bool may_validate = &candidate != training && candidate.part && candidate.may_be_part();
    if (!may_validate || !shares_classes(candidate, *training)) continue;
    if (validation == nullptr || *candidate.part < *validation->part) validation = &candidate;
  }
  layout.training = training->path;
  layout.classes = training->classes;
  leave_out_empty(*training, layout);
  if (validation != nullptr) {
    layout.validation = validation->path;
    leave_out_empty(*validation, layout);
  }
  for (const Candidate& candidate : candidates) {
    if (&candidate != training && &candidate != validation) layout.left_out.push_back(candidate.name);
  }
  std::ranges::sort(layout.left_out);
  return layout;
}

void warn_of_names(const std::vector<Candidate>& candidates, DirectoryLayout& layout) {
  const auto named = [&](auto is_part) {
    return std::ranges::find_if(candidates,
                                [&](const Candidate& candidate) { return candidate.part && is_part(*candidate.part); });
  };
  const auto training = named([](Part part) { return part == Part::kTraining; });
  const auto other = named([](Part part) { return part != Part::kTraining; });
  if (training == candidates.end() || other == candidates.end()) return;
  layout.warnings.push_back(
      fmt::format("{0}: '{1}' and '{2}' are treated as classes, because they do not contain the same directories; if "
                  "they are parts of a data set, name them with --data-train {0}/{1} and --data-val {0}/{2}",
                  layout.training, printable(training->name), printable(other->name)));
}

}  // namespace

Result<DirectoryLayout> directory_layout(const std::string& directory) {
  DirectoryLayout layout{.training = directory};
  DT_TRY(ClassDirectories tops, class_directories(directory));
  layout.left_out = tops.without_images;
  std::ranges::copy(take_descriptions(tops.classes), std::back_inserter(layout.left_out));
  if (tops.classes.empty()) {
    if (layout.left_out.empty()) return fail(Code::kNotFound, "{}: the directory contains no directories", directory);
    DT_TRY(const OtherFiles others, files_beside_classes(directory));
    return tl::unexpected(no_images(directory, others));
  }
  std::vector<Candidate> candidates;
  for (const std::string& name : tops.classes) {
    DT_TRY(Candidate candidate, candidate_of(directory, name));
    candidates.push_back(std::move(candidate));
  }
  if (candidates.size() == 1 && candidates[0].may_be_part() && !has_own_image(directory)) {
    layout.training = candidates[0].path;
    layout.classes = candidates[0].classes;
    if (candidates[0].part == Part::kTraining) {
      leave_out_empty(candidates[0], layout);
      return layout;
    }
    DT_TRY(DirectoryLayout inside, directory_layout(candidates[0].path));
    inside.left_out.insert(inside.left_out.end(), layout.left_out.begin(), layout.left_out.end());
    return inside;
  }
  if (are_parts(candidates)) return parts_by_name(directory, candidates, std::move(layout));
  layout.classes = tops.classes;
  warn_of_names(candidates, layout);
  return layout;
}

}  // namespace dtrain::data
