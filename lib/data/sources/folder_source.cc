#include "data/sources/folder_source.h"

#include <filesystem>

#include "data/sources/picture_source.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

class FolderPictures : public ImageSource {
 public:
  FolderPictures(std::string root, int channels) : root_(std::move(root)), channels_(channels) {}

  // Returns what else is in the folder.
  Result<OtherFiles> add_class(const std::string& name) {
    const std::string folder = (fs::path(root_) / name).string();
    const auto label = static_cast<uint32_t>(classes_.size());
    classes_.push_back(name);
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) return OtherFiles();
    DT_TRY(ListedPictures found, list_pictures(folder));
    if (size() + std::ssize(found.pictures) > kFolderFilesMax) {
      return fail(Code::kData, "{}: more than {} pictures; pack them with 'dtrain im2rec --recursive PREFIX {}'", root_,
                  kFolderFilesMax, root_);
    }
    for (std::string& path : found.pictures) pictures_.push_back({label, std::move(path)});
    return std::move(found.others);
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

Result<FolderSource> open_folder(const std::string& root, const std::vector<std::string>& classes, int channels) {
  auto pictures = std::make_shared<FolderPictures>(root, channels);
  FolderSource opened;
  for (const std::string& name : classes) {
    const int64_t before = pictures->size();
    DT_TRY(const OtherFiles others, pictures->add_class(name));
    opened.by_class.push_back(pictures->size() - before);
    add(others, opened.others);
  }
  DT_TRY(const OtherFiles beside, files_beside_classes(root, classes));
  add(beside, opened.others);
  if (pictures->size() == 0) return tl::unexpected(no_pictures(root, opened.others));
  opened.pictures = std::move(pictures);
  return opened;
}

}  // namespace dtrain::data
