#include "data/sources/directory_source.h"

#include <filesystem>

#include "data/sources/named_images.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

class DirectoryImages : public ImageSource {
 public:
  DirectoryImages(std::string root, int channels) : root_(std::move(root)), channels_(channels) {}

  // Adds the images of a class. Returns the other files in its directory.
  Result<OtherFiles> add_class(const std::string& name) {
    const std::string directory = (fs::path(root_) / name).string();
    const auto label = static_cast<uint32_t>(classes_.size());
    classes_.push_back(name);
    std::error_code ignored;
    if (!fs::is_directory(directory, ignored)) return OtherFiles();
    DT_TRY(ListedImages found, list_images(directory));
    if (size() + std::ssize(found.images) > kDirectoryFilesMax) {
      return fail(Code::kData, "{}: more than {} images; pack them with 'dtrain im2rec --recursive PREFIX {}'", root_,
                  kDirectoryFilesMax, root_);
    }
    for (std::string& path : found.images) images_.push_back({label, std::move(path)});
    return std::move(found.others);
  }

  [[nodiscard]] int64_t size() const override { return std::ssize(images_); }
  [[nodiscard]] int channels() const override { return channels_; }

  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    DT_TRY_VOID(read_image(describe(index), channels_, scratch));
    labels[0] = static_cast<float>(images_[static_cast<size_t>(index)].label);
    return {};
  }

  [[nodiscard]] std::string describe(int64_t index) const override {
    const Image& image = images_[static_cast<size_t>(index)];
    return (fs::path(root_) / classes_[image.label] / image.path).string();
  }

 private:
  struct Image {
    uint32_t label;
    std::string path;  // path of the image, relative to the directory of its class
  };

  std::string root_;
  int channels_;
  std::vector<std::string> classes_;
  std::vector<Image> images_;
};

}  // namespace

Result<DirectorySource> open_directory(const std::string& root, const std::vector<std::string>& classes, int channels) {
  auto images = std::make_shared<DirectoryImages>(root, channels);
  DirectorySource opened;
  for (const std::string& name : classes) {
    const int64_t before = images->size();
    DT_TRY(const OtherFiles others, images->add_class(name));
    opened.by_class.push_back(images->size() - before);
    add(others, opened.others);
  }
  DT_TRY(const OtherFiles beside, files_beside_classes(root, classes));
  add(beside, opened.others);
  if (images->size() == 0) return tl::unexpected(no_images(root, opened.others));
  opened.images = std::move(images);
  return opened;
}

}  // namespace dtrain::data
