#include "data/sources/record_source.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/missing_data.h"
#include "data/records/image_record.h"

namespace dtrain::data {
namespace {

class RecordSource : public ImageSource {
 public:
  explicit RecordSource(const RecordSourceOptions& options)
      : channels_(options.channels), label_width_(options.label_width), list_(options.labels) {}

  void add(RecordFile file, const std::vector<int64_t>& offsets) {
    for (size_t i = 0; i < offsets.size(); i++) {
      const int64_t end = i + 1 < offsets.size() ? offsets[i + 1] : file.size();
      places_.push_back({files_.size(), offsets[i], end});
    }
    end_.push_back(size());
    files_.push_back(std::move(file));
  }

  [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(places_.size()); }
  [[nodiscard]] int channels() const override { return channels_; }

  [[nodiscard]] size_t label_width() const override { return label_width_; }

  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    const Place& place = places_[static_cast<size_t>(index)];
    const RecordFile& file = files_[place.file];
    DT_TRY(const Bytes payload, file.read(place.offset, place.end, scratch.record));
    const Result<> opened = open(payload, scratch, labels);
    if (!opened) return fail(opened.error().code, "{}: {}", describe(index), opened.error().message);
    return {};
  }

  [[nodiscard]] int64_t stored_bytes(int64_t index) const override {
    const Place& place = places_[static_cast<size_t>(index)];
    return place.end - place.offset;
  }

  // Announces the records in file order, and adjacent records as one piece.
  void will_read(std::span<const int64_t> images) const override {
    std::vector<Place> places;
    places.reserve(images.size());
    for (const int64_t index : images) places.push_back(places_[static_cast<size_t>(index)]);
    std::ranges::sort(places, {}, [](const Place& place) { return std::pair(place.file, place.offset); });
    for (size_t begin = 0, end = 0; begin < places.size(); begin = end) {
      int64_t until = places[begin].end;
      for (end = begin + 1; end < places.size() && places[end].file == places[begin].file; end++) {
        if (places[end].offset > until) break;
        until = std::max(until, places[end].end);
      }
      files_[places[begin].file].will_read(places[begin].offset, until - places[begin].offset);
    }
  }

  [[nodiscard]] std::string describe(int64_t index) const override {
    const Place& place = places_[static_cast<size_t>(index)];
    const int64_t before = place.file == 0 ? 0 : end_[place.file - 1];
    return fmt::format("{}: record {} at offset {}", files_[place.file].path(), index - before, place.offset);
  }

 private:
  struct Place {
    size_t file;
    int64_t offset, end;
  };

  Result<> open(Bytes payload, ReadScratch& scratch, std::span<float> labels) const {
    DT_TRY(const ImageRecord record, parse_image_record(payload));
    if (list_ != nullptr) {
      DT_TRY_VOID(take_from_list(record.id, labels));
      return scratch.open(record.image, channels_);
    }
    const size_t count = std::max<size_t>(record.flag, 1);
    if (label_width_ != 0 && count != label_width_) {
      return fail(Code::kData, "the record has {} label{}, but --label-width is {}", count, count == 1 ? "" : "s",
                  label_width_);
    }
    for (size_t i = 0; i < labels.size(); i++) labels[i] = record.label_at(i);
    return scratch.open(record.image, channels_);
  }

  // Takes the labels from the list. If the list lacks a record, the list is wrong; the record does not count as broken.
  [[nodiscard]] Result<> take_from_list(uint64_t id, std::span<float> labels) const {
    const std::span<const float> found = list_->find(id);
    if (found.empty()) {
      return fail(Code::kUsage, "the record has the id {}, but --path-imglist {} has no labels for this id", id,
                  list_->name());
    }
    std::copy_n(found.begin(), std::min(found.size(), labels.size()), labels.begin());
    return {};
  }

  int channels_;
  size_t label_width_;
  std::shared_ptr<const LabelList> list_;
  std::vector<RecordFile> files_;
  std::vector<int64_t> end_;  // indexed by file: the number of records in this file and all files before it
  std::vector<Place> places_;
};

}  // namespace

Result<std::shared_ptr<const ImageSource>> open_records(const RecordSourceOptions& options, const Log& log) {
  auto source = std::make_shared<RecordSource>(options);
  for (const std::string& path : options.paths) {
    DT_TRY(RecordFile file, RecordFile::open(path, log, options.calls));
    DT_TRY_VOID(check_is_record_file(file));
    const auto known = options.known.find(path);
    std::vector<int64_t> offsets;
    if (known != options.known.end()) {
      offsets = known->second;
    } else {
      DT_TRY(offsets, record_offsets(file, options.index, log));
    }
    source->add(std::move(file), offsets);
  }
  if (source->size() == 0) return fail(Code::kData, "{}: no records", fmt::join(options.paths, ", "));
  return source;
}

namespace {

// True for directories, pipes and the like. False for a dangling link, because its records would be missing: opening it
// must fail.
bool is_other_than_file(const std::filesystem::directory_entry& entry) {
  std::error_code unknown;
  const std::filesystem::file_status status = entry.status(unknown);
  return std::filesystem::status_known(status) && std::filesystem::exists(status) &&
         !std::filesystem::is_regular_file(status);
}

Result<std::vector<std::string>> record_files_in(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".rec" && !is_other_than_file(entry)) paths.push_back(entry.path().string());
  }
  if (error) return fail(Code::kUsage, "{}: {}", directory, error.message());
  if (paths.empty()) {
    return fail(
        Code::kNotFound,
        "{}: the directory contains no .rec file (for a directory with MNIST's or CIFAR's files, use --data-dir); pack "
        "images first: 'dtrain im2rec --recursive PREFIX {}' writes PREFIX.rec, with one label per directory; {}",
        directory, directory, kWaysToGetData);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<std::vector<std::string>> list_record_files(const std::string& name) {
  std::vector<std::string> paths;
  for (std::string& path : split_paths(name)) {
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown)) {
      DT_TRY(const std::vector<std::string> inside, record_files_in(path));
      paths.insert(paths.end(), inside.begin(), inside.end());
    } else {
      paths.push_back(std::move(path));
    }
  }
  return paths;
}

}  // namespace dtrain::data
