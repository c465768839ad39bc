#include "data/sources/named_images.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "data/records/retrying_file.h"
#include "data/sources/cifar_source.h"
#include "data/sources/idx_source.h"
#include "data/sources/image_directory.h"
#include "data/sources/recognize.h"
#include "data/sources/record_source.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kImageBytesMax = uint64_t{1} << 29;  // largest size of an image file; the same limit as for a record

class ImageFiles : public ImageSource {
 public:
  ImageFiles(std::vector<std::string> paths, int channels) : paths_(std::move(paths)), channels_(channels) {}

  [[nodiscard]] int64_t size() const override { return std::ssize(paths_); }
  [[nodiscard]] int channels() const override { return channels_; }
  [[nodiscard]] size_t label_width() const override { return 0; }
  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> /*labels*/) const override {
    return read_image(describe(index), channels_, scratch);
  }
  [[nodiscard]] std::string describe(int64_t index) const override { return paths_[static_cast<size_t>(index)]; }

 private:
  std::vector<std::string> paths_;
  int channels_;
};

// The images of several sources, one source after the other, without their labels.
class JoinedImages : public ImageSource {
 public:
  explicit JoinedImages(int channels) : channels_(channels) {}

  void add(std::shared_ptr<const ImageSource> source) {
    const int64_t begin = size();
    parts_.push_back({begin + source->size(), begin, std::move(source)});
  }

  [[nodiscard]] int64_t size() const override { return parts_.empty() ? 0 : parts_.back().end; }
  [[nodiscard]] int channels() const override { return channels_; }
  [[nodiscard]] size_t label_width() const override { return 0; }
  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> /*labels*/) const override {
    const Part& part = part_of(index);
    scratch.labels.resize(part.source->label_width());
    return part.source->read(index - part.begin, scratch, scratch.labels);
  }
  [[nodiscard]] std::string describe(int64_t index) const override {
    const Part& part = part_of(index);
    return part.source->describe(index - part.begin);
  }

 private:
  struct Part {
    int64_t end, begin;
    std::shared_ptr<const ImageSource> source;
  };
  [[nodiscard]] const Part& part_of(int64_t index) const {
    return *std::ranges::upper_bound(parts_, index, {}, &Part::end);
  }

  int channels_;
  std::vector<Part> parts_;
};

Result<std::vector<std::string>> images_in(const std::string& directory, const Log& log) {
  DT_TRY(const ListedImages found, list_images(directory));
  const std::string others = to_text(found.others);
  if (found.images.empty()) {
    return fail(Code::kData, "{}: the directory has no JPEG or PNG files{}{}", directory,
                others.empty() ? "" : ", but ", others);
  }
  if (!others.empty()) log.info("{}: {} images; left out: {}", directory, found.images.size(), others);
  std::vector<std::string> paths;
  for (const std::string& path : found.images) paths.push_back((fs::path(directory) / path).string());
  return paths;
}

// The source for a file that holds several images; null for an image file.
Result<std::shared_ptr<const ImageSource>> open_set_file(const std::string& name, int channels, const Log& log) {
  if (!is_set_file(name)) return nullptr;
  if (name.ends_with(".rec"))
    return open_records({.paths = {name}, .index = {}, .channels = channels, .label_width = 0}, log);
  const bool is_idx = is_idx_images(name);
  const int own_channels = is_idx ? 1 : 3;
  if (channels != own_channels) {
    return fail(Code::kUsage, "{}: the images have {}, but the network's images have {}", name,
                is_idx ? "1 channel" : "3 channels", channels);
  }
  if (is_idx) return open_idx(name, "");
  DT_TRY(const Cifar kind, recognize_cifar({name}));
  return open_cifar(kind, {name}, 1, log);
}

// Reads an image file. A file that is missing or too large counts as a broken image; a disk fault does not.
Result<> read_image_file(const std::string& path, std::string& bytes) {
  const auto file = RetryingFile::open(path, Log::silent());
  if (!file) {
    const bool is_fault = file.error().code == Code::kDevice;
    return fail(is_fault ? Code::kDevice : Code::kData, "{}", file.error().message);
  }
  const auto size = static_cast<uint64_t>((*file)->size());
  if (size > kImageBytesMax) {
    return fail(Code::kData, "{}: the file is larger than {} MiB, the limit for such files", path,
                kImageBytesMax >> 20U);
  }
  bytes.resize(size);
  return (*file)->read_at(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

bool is_set_file(const std::string& name) {
  return name.ends_with(".rec") || name.ends_with(".bin") || is_idx_images(name);
}

Result<> read_image(const std::string& path, int channels, ReadScratch& scratch) {
  DT_TRY_VOID(read_image_file(path, scratch.file));
  const Result<> opened = scratch.open(as_bytes(scratch.file), channels);
  if (!opened) return fail(Code::kData, "{}: {}", path, opened.error().message);
  return {};
}

Result<std::shared_ptr<const ImageSource>> open_images(const std::vector<std::string>& names, int channels,
                                                       const Log& log) {
  auto joined = std::make_shared<JoinedImages>(channels);
  std::vector<std::string> files;  // successive image files
  const auto add_files = [&] {
    if (!files.empty()) joined->add(std::make_shared<ImageFiles>(std::exchange(files, {}), channels));
  };
  for (const std::string& name : names) {
    std::error_code ignored;
    if (fs::is_directory(name, ignored)) {
      DT_TRY(const std::vector<std::string> found, images_in(name, log));
      files.insert(files.end(), found.begin(), found.end());
      continue;
    }
    DT_TRY(std::shared_ptr<const ImageSource> source, open_set_file(name, channels, log));
    if (source == nullptr) {
      files.push_back(name);
      continue;
    }
    add_files();
    joined->add(std::move(source));
  }
  add_files();
  return joined;
}

}  // namespace dtrain::data
