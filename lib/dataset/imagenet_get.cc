#include "dataset/imagenet_get.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/progress_bar.h"
#include "base/words.h"
#include "data/records/record_file.h"
#include "data/records/record_index.h"
#include "dataset/matlab_file.h"
#include "dataset/packing/pack.h"

namespace dtrain::dataset {

namespace fs = std::filesystem;
using data::ReadTar;
using data::TarMember;

namespace {

constexpr std::string_view kTarSuffix = ".tar";

bool is_image(const std::string& name) {
  const std::string suffix = lower_case(fs::path(name).extension().string());
  return suffix == ".jpeg" || suffix == ".jpg" || suffix == ".png";
}

// Finds the inner archives of the classes; the result is indexed by class name.
Result<std::map<std::string, TarMember>> class_archives(const ReadTar& read, int64_t end, const std::string& name) {
  DT_TRY(const std::vector<TarMember> outer, data::list_tar(read, 0, end, name));
  std::map<std::string, TarMember> archives;
  for (const TarMember& member : outer) {
    const std::string file = fs::path(member.name).filename().string();
    if (!file.ends_with(kTarSuffix)) continue;
    archives.emplace(file.substr(0, file.size() - kTarSuffix.size()), member);
  }
  if (archives.empty()) {
    return fail(Code::kData, "{}: the archive contains no archive of a class, such as n01440764.tar", name);
  }
  return archives;
}

}  // namespace

Result<ArchivedImages> training_images(const ReadTar& read, int64_t end, const std::string& name, const Log& log) {
  DT_TRY(const auto archives, class_archives(read, end, name));
  ArchivedImages images;
  ProgressBar bar({"listing " + fs::path(name).filename().string(), "", end}, log);
  for (const auto& [class_name, archive] : archives) {
    bar.show(archive.offset);
    DT_TRY(std::vector<TarMember> inner,
           data::list_tar(read, archive.offset, archive.offset + archive.size, name + ": " + archive.name));
    std::ranges::sort(inner, {}, &TarMember::name);
    const auto label = static_cast<float>(images.classes.size());
    images.classes.push_back(class_name);
    for (TarMember& member : inner) {
      if (!is_image(member.name)) continue;
      images.entries.push_back({images.entries.size(), {label}, class_name + "/" + member.name});
      images.members.push_back(std::move(member));
    }
  }
  return images;
}

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

// The number in "ILSVRC2012_val_00000001.JPEG"; 0 if there is none.
int64_t number_in_name(const std::string& path) {
  const std::string stem = fs::path(path).stem().string();
  const size_t digits = stem.find_last_not_of("0123456789") + 1;
  int64_t number = 0;
  std::from_chars(stem.data() + digits, stem.data() + stem.size(), number);
  return number;
}

// The labels of the validation images, indexed by the number of the image.
class GroundTruth {
 public:
  GroundTruth(const std::string& text, const std::map<int64_t, std::string>& synsets,
              const std::vector<std::string>& classes)
      : ids_(lines_of(text)), synsets_(synsets), classes_(classes) {}

  Result<float> label_of(const std::string& path) const {
    const int64_t number = number_in_name(path);
    if (number < 1 || number > static_cast<int64_t>(ids_.size())) {
      return fail(Code::kData, "{}: the devkit's ground truth has {} lines, but none for this image", path,
                  ids_.size());
    }
    const std::string& text = ids_[static_cast<size_t>(number - 1)];
    int64_t id = 0;
    std::from_chars(text.data(), text.data() + text.size(), id);
    const auto synset = synsets_.find(id);
    if (synset == synsets_.end()) {
      return fail(Code::kData, "the devkit's ground truth, line {}: the devkit's table has no class '{}'", number,
                  text);
    }
    const auto place = std::ranges::lower_bound(classes_, synset->second);
    if (place == classes_.end() || *place != synset->second) {
      return fail(Code::kData, "{}: the image's class, {}, has no training images", path, synset->second);
    }
    return static_cast<float>(place - classes_.begin());
  }

 private:
  std::vector<std::string> ids_;
  const std::map<int64_t, std::string>& synsets_;
  const std::vector<std::string>& classes_;
};

}  // namespace

Result<ArchivedImages> validation_images(const ReadTar& read, int64_t end, const std::string& name,
                                         const std::string& ground_truth, const std::map<int64_t, std::string>& synsets,
                                         const std::vector<std::string>& classes) {
  const GroundTruth truth(ground_truth, synsets, classes);
  DT_TRY(std::vector<TarMember> members, data::list_tar(read, 0, end, name));
  std::ranges::sort(members, {}, &TarMember::name);
  ArchivedImages images{.entries = {}, .classes = classes, .members = {}};
  for (TarMember& member : members) {
    if (!is_image(member.name)) continue;
    DT_TRY(const float label, truth.label_of(member.name));
    images.entries.push_back({images.entries.size(), {label}, member.name});
    images.members.push_back(std::move(member));
  }
  return images;
}

namespace {

struct Devkit {
  std::string ground_truth;
  std::map<int64_t, std::string> synsets;
};

Result<Devkit> read_devkit(const std::string& path) {
  constexpr int64_t kBytesMax = 256 << 20, kMemberMax = 64 << 20;
  const std::string truth_name = "ILSVRC2012_validation_ground_truth.txt";
  Devkit devkit;
  std::string table;
  DT_TRY_VOID(data::walk_tar_gz(path, kBytesMax, [&](const std::string& member, int64_t size) -> data::TakePiece {
    const std::string name = fs::path(member).filename().string();
    std::string* const text = name == truth_name ? &devkit.ground_truth : name == "meta.mat" ? &table : nullptr;
    if (text == nullptr || size > kMemberMax) return nullptr;
    return [text](Bytes piece) -> Result<> {
      text->append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return {};
    };
  }));
  if (devkit.ground_truth.empty() || table.empty()) {
    return fail(Code::kData, "{}: the archive lacks {} or meta.mat", path, truth_name);
  }
  DT_TRY(devkit.synsets, read_synsets(as_bytes(table), path + ": meta.mat"));
  return devkit;
}

ReadTar reader_of(const data::RecordFile& file) {
  return [&file](int64_t offset, std::span<uint8_t> out) { return file.read_at(offset, out); };
}

struct Packing {
  const data::RecordFile& archive;
  const ArchivedImages& images;
  std::string out;
  int resize;
};

Result<> pack(const Packing& packing, const DataGetOptions& options, const Log& log) {
  PackOptions pack;
  pack.resize = packing.resize;
  pack.quality = options.quality;
  pack.threads = std::max(options.threads, 1);
  const auto read = [&](const data::ListEntry& entry) -> Result<std::string> {
    const TarMember& member = packing.images.members[entry.id];
    std::string content(static_cast<size_t>(member.size), '\0');
    DT_TRY_VOID(packing.archive.read_at(member.offset, {reinterpret_cast<uint8_t*>(content.data()), content.size()}));
    return content;
  };
  std::vector<data::ListEntry> shuffled;
  for (const int64_t i : data::python_shuffle(static_cast<int64_t>(packing.images.entries.size()))) {
    shuffled.push_back(packing.images.entries[static_cast<size_t>(i)]);
  }
  DT_TRY(const PackReport report,
         pack_images(shuffled, packing.archive.path(), packing.out, pack, log, {.stop = options.stop, .read = read}));
  log.info("packed {} images of {} classes into '{}', skipped {}", report.packed, packing.images.classes.size(),
           packing.out, report.skipped);
  return {};
}

bool is_packed(const std::string& records) {
  std::error_code ignored;
  return fs::exists(records, ignored) && fs::exists(data::index_path(records), ignored);
}

}  // namespace

Result<> get_imagenet(const PublishedSet& set, const DataGetOptions& options,
                      const std::function<Result<std::string>(const PublishedFile& file)>& fetch, const Log& log) {
  const std::string train_records = options.out + "/train.rec", val_records = options.out + "/val.rec";
  if (is_packed(train_records) && is_packed(val_records)) {
    log.info("'{}' already contains train.rec and val.rec", options.out);
    return {};
  }
  DT_TRY(const std::string devkit_path, fetch(set.files[0]));
  DT_TRY(const std::string val_path, fetch(set.files[1]));
  DT_TRY(const std::string train_path, fetch(set.files[2]));
  DT_TRY(const Devkit devkit, read_devkit(devkit_path));
  DT_TRY(const data::RecordFile train, data::RecordFile::open(train_path));
  DT_TRY(const data::RecordFile val, data::RecordFile::open(val_path));
  DT_TRY(const ArchivedImages train_images, training_images(reader_of(train), train.size(), train_path, log));
  DT_TRY(const ArchivedImages val_images, validation_images(reader_of(val), val.size(), val_path, devkit.ground_truth,
                                                            devkit.synsets, train_images.classes));
  DT_TRY_VOID(
      write_file_atomic(options.out + "/synset.txt", fmt::format("{}\n", fmt::join(train_images.classes, "\n"))));
  if (!is_packed(val_records)) {
    DT_TRY_VOID(pack({val, val_images, val_records, options.val_resize}, options, log), "packing '{}'", val_path);
  }
  if (!is_packed(train_records)) {
    DT_TRY_VOID(pack({train, train_images, train_records, options.resize}, options, log), "packing '{}'", train_path);
  }
  return {};
}

}  // namespace dtrain::dataset
