#include "data/sources/folder_source.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>

#include "data/records/image_list.h"
#include "data/sources/picture_source.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

class FolderSource : public ImageSource {
 public:
  FolderSource(std::string root, int channels) : root_(std::move(root)), channels_(channels) {}

  Result<> add_class(const std::string& name) {
    const std::string folder = (fs::path(root_) / name).string();
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) {
      return fail(Code::kNotFound, "{}: there is no folder for the class '{}', which the training data have", root_,
                  name);
    }
    DT_TRY(ImageFolder found, list_folder(folder, true, picture_extensions()));
    if (found.entries.empty()) {
      return fail(Code::kData, "{}: the folder of a class has no pictures ({}); remove it, or put pictures into it",
                  folder, fmt::join(picture_extensions(), ", "));
    }
    if (size() + std::ssize(found.entries) > kFolderFilesMax) {
      return fail(Code::kData, "{}: more than {} pictures; pack them with 'dtrain im2rec --recursive PREFIX {}'", root_,
                  kFolderFilesMax, root_);
    }
    for (ListEntry& entry : found.entries) {
      pictures_.push_back({static_cast<uint32_t>(classes_.size()), std::move(entry.path)});
    }
    classes_.push_back(name);
    return {};
  }

  [[nodiscard]] int64_t size() const override { return std::ssize(pictures_); }
  [[nodiscard]] int channels() const override { return channels_; }

  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    DT_TRY_VOID(read_picture(describe(index), channels_, scratch));
    labels[0] = static_cast<float>(pictures_[static_cast<size_t>(index)].label);
    return {};
  }

  [[nodiscard]] std::string describe(int64_t index) const override {
    const Picture& picture = pictures_[static_cast<size_t>(index)];
    return (fs::path(root_) / classes_[picture.label] / picture.path).string();
  }

 private:
  struct Picture {
    uint32_t label;
    std::string path;  // relative to the folder of its class
  };

  std::string root_;
  int channels_;
  std::vector<std::string> classes_;
  std::vector<Picture> pictures_;
};

}  // namespace

const std::vector<std::string>& picture_extensions() {
  static const std::vector<std::string> kExtensions = {".jpg", ".jpeg", ".png"};
  return kExtensions;
}

Result<std::vector<std::string>> folders_in(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    std::error_code broken_link;
    std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && entry.is_directory(broken_link)) names.push_back(std::move(name));
  }
  if (error) return fail(Code::kNotFound, "{}: {}", root, error.message());
  std::ranges::sort(names);
  return names;
}

Result<std::shared_ptr<const ImageSource>> open_folder(const std::string& root, const std::vector<std::string>& classes,
                                                       int channels) {
  auto source = std::make_shared<FolderSource>(root, channels);
  for (const std::string& name : classes) DT_TRY_VOID(source->add_class(name));
  if (source->size() == 0) return fail(Code::kData, "{}: there are no folders of classes", root);
  return source;
}

}  // namespace dtrain::data
