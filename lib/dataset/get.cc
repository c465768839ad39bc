#include "dataset/get.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/file.h"
#include "base/missing_data.h"
#include "base/progress_bar.h"
#include "base/thread.h"
#include "base/unique_fd.h"
#include "data/records/gzip_file.h"
#include "data/records/image_record.h"
#include "data/records/record_writer.h"
#include "data/records/tar.h"
#include "data/sources/cifar_source.h"
#include "data/sources/idx_source.h"
#include "dataset/imagenet_get.h"
#include "net/web/download.h"

namespace dtrain::dataset {

namespace fs = std::filesystem;

namespace {

// MNIST's digests are those of the decompressed idx files, because mirrors compress the files again.
const std::vector<PublishedSet>& published_sets() {
  using enum net::DigestKind;
  static const std::vector<PublishedSet> sets = {
      {"mnist",
       "https://ossci-datasets.s3.amazonaws.com/mnist",
       {{"train-images-idx3-ubyte.gz", kSha256, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
         true},
        {"train-labels-idx1-ubyte.gz", kSha256, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
         true},
        {"t10k-images-idx3-ubyte.gz", kSha256, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
         true},
        {"t10k-labels-idx1-ubyte.gz", kSha256, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
         true}}},
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz",
       {{"cifar-10-binary.tar.gz", kMd5, "c32a1d4ab5d03f1284b67883e8d87530"}}},
      {"cifar100",
       "https://www.cs.toronto.edu/~kriz",
       {{"cifar-100-binary.tar.gz", kMd5, "03b5dce01913d631647c71ecec9e9cb8"}}},
      {"imagenet",
       "",
       {{"ILSVRC2012_devkit_t12.tar.gz", kMd5, "fa75699e90414af021442c21a62c3abf"},
        {"ILSVRC2012_img_val.tar", kMd5, "29b22e2961454d5413ddabcf34fc5622"},
        {"ILSVRC2012_img_train.tar", kMd5, "1d675b47d978889d74fa0da5fadfb00e"}}},
  };
  return sets;
}

constexpr size_t kPieceBytes = size_t{1} << 20;

// Passes the bytes of a file to `take`, piece by piece; decompresses them if `decompress` is set and the file is
// compressed.
Result<> read_pieces(const std::string& path, bool decompress,
                     const std::function<Result<>(std::span<std::byte>)>& take) {
  std::vector<std::byte> piece(kPieceBytes);
  if (!decompress) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.open()) return fail(Code::kNotFound, "{}: {}", path, std::strerror(errno));
    while (true) {
      const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(Code::kData, "{}: {}", path, std::strerror(errno));
      if (got == 0) return {};
      DT_TRY_VOID(take(std::span(piece).first(static_cast<size_t>(got))));
    }
  }
  DT_TRY(data::GzipFile file, data::GzipFile::open(path));
  while (true) {
    DT_TRY(const size_t got, file.read({reinterpret_cast<uint8_t*>(piece.data()), piece.size()}));
    if (got == 0) return {};
    DT_TRY_VOID(take(std::span(piece).first(got)));
  }
}

// The digest of a file; "" if the file cannot be decompressed.
Result<std::string> digest_of(const std::string& path, const PublishedFile& file, const DataGetOptions& options,
                              const Log& log) {
  net::Digester digester(file.kind);
  std::error_code ignored;
  const auto size = file.of_content ? 0 : static_cast<int64_t>(fs::file_size(path, ignored));
  ProgressBar bar({"checking " + file.name, "", size}, log);
  int64_t done = 0;
  const Result<> read = read_pieces(path, file.of_content, [&](std::span<std::byte> piece) -> Result<> {
    if (options.stop != nullptr && *options.stop)
      return fail(Code::kPreempted, "{}: stopped while the file was being checked", path);
    digester.add(piece);
    done += static_cast<int64_t>(piece.size());
    bar.show(done);
    return {};
  });
  if (!read && read.error().code == Code::kPreempted) return tl::unexpected(read.error());
  return read ? digester.hex() : std::string();
}

std::string address_of(const PublishedSet& set, const PublishedFile& file, const DataGetOptions& options) {
  std::string directory = options.url.empty() ? set.address : options.url;
  if (set.files.size() == 1 && directory.ends_with("/" + file.name)) return directory;
  while (directory.ends_with('/')) directory.pop_back();
  return directory + "/" + file.name;
}

Result<> check_address(const PublishedSet& set, const DataGetOptions& options) {
  const std::string& url = options.url;
  if (url.empty() && set.address.empty()) {
    std::vector<std::string> names;
    for (const PublishedFile& file : set.files) names.push_back(file.name);
    return fail(Code::kUsage,
                "dtrain data get {}: these images are licensed, so dtrain has no default address for them. Get the "
                "files from https://image-net.org after registration, or from your organization, and give the address "
                "of the directory that contains {}: --url https://HOST/DIRECTORY or --url file:///DIRECTORY",
                set.name, fmt::join(names, ", "));
  }
  if (url.empty() || url.starts_with("https://") || url.starts_with("http://") || url.starts_with("file:///"))
    return {};
  return fail(Code::kUsage,
              "--url {}: give the address of a directory; it must begin with https://, http:// or file:///", url);
}

Result<> move_file(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return fail(Code::kData, "{}: {}", to, error.message());
  return {};
}

// Downloads one file to `path` unless it already exists, and checks it.
class Fetch {
 public:
  Fetch(const PublishedSet& set, const PublishedFile& file, const DataGetOptions& options, const Log& log)
      : set_(set), file_(file), options_(options), log_(log), path_(options.out + "/" + file.name) {}

  [[nodiscard]] const std::string& path() const { return path_; }

  // If the file's address is a directory of this host, checks the file there; otherwise does the same as run().
  Result<> use_in_place() {
    constexpr std::string_view kFile = "file://";
    remembers_ = true;
    if (!options_.url.starts_with(kFile)) return run();
    path_ = url().substr(kFile.size());
    std::error_code ignored;
    if (!fs::exists(path_, ignored)) return fail(Code::kNotFound, "{}: no such file", path_);
    return check_present();
  }

  Result<> run() {
    std::error_code ignored;
    if (fs::exists(path_, ignored)) return check_present();
    const std::string part = path_ + ".part";
    DT_TRY(const net::Downloaded first, download_to(part));
    DT_TRY(bool is_right, check(part));
    if (!is_right && first.was_resumed) {
      log_.warn(
          "{}: the file differs from the published file, perhaps because it changed between two parts of the download; "
          "downloading the whole file again",
          url());
      fs::remove(part, ignored);
      DT_TRY_VOID(download_to(part));
      DT_TRY(is_right, check(part));
    }
    if (is_right) {
      DT_TRY_VOID(move_file(part, path_));
      return remember();
    }
    fs::remove(part, ignored);
    return fail(Code::kData,
                "{}: this is not the published file: its {} is {}, but should be {}. The download was deleted. --url "
                "sets another address{}",
                url(), kind_text(), found_.empty() ? "unknown, because the file cannot be decompressed" : found_,
                file_.digest, hint());
  }

 private:
  [[nodiscard]] std::string url() const { return address_of(set_, file_, options_); }
  [[nodiscard]] std::string kind_text() const {
    return fmt::format("{} checksum{}", file_.kind == net::DigestKind::kMd5 ? "MD5" : "SHA-256",
                       file_.of_content ? " (of its uncompressed content)" : "");
  }
  [[nodiscard]] static const char* hint() { return "; --checksums 0 accepts any files of this format"; }

  Result<net::Downloaded> download_to(const std::string& part) {
    ProgressBar bar({file_.name, "", 0}, log_);
    log_.info("downloading {}", url());
    return net::download({.url = url(),
                          .path = part,
                          .progress =
                              [&bar](int64_t have, int64_t total) {
                                bar.set_total(total);
                                bar.show(have);
                              },
                          .stop = options_.stop,
                          .attempts = options_.attempts,
                          .first_pause = options_.first_pause},
                         log_);
  }
  Result<bool> check(const std::string& path) {
    if (!options_.checks) return true;
    DT_TRY(found_, digest_of(path, file_, options_, log_));
    return found_ == file_.digest;
  }
  // Checks a file that exists already. If it is the wrong file, it is not removed, because this program did not create
  // it.
  Result<> check_present() {
    if (is_remembered()) {
      log_.info("'{}' already exists; an earlier run has checked it", path_);
      return {};
    }
    DT_TRY(const bool is_right, check(path_));
    if (is_right) {
      log_.info("'{}' already exists", path_);
      return remember();
    }
    return fail(Code::kData, "{}: this is not the published file: its {} should be {}{}", path_, kind_text(),
                file_.digest, hint());
  }

  // The file that records that a file was checked, because checking a large file takes as long as reading it
  // completely. It is in the directory of the data set, because the directory of the checked file may be read-only. It
  // is valid as long as the size and time of the checked file are unchanged.
  [[nodiscard]] std::string note_path() const { return options_.out + "/" + file_.name + ".checked"; }
  [[nodiscard]] std::string note() const {
    std::error_code error;
    const auto size = fs::file_size(path_, error);
    if (error) return "";
    const auto time = fs::last_write_time(path_, error);
    if (error) return "";
    return fmt::format("{} {} {} {}\n", file_.digest, size, time.time_since_epoch().count(),
                       fs::absolute(path_, error).string());
  }
  [[nodiscard]] bool is_remembered() const {
    const std::string expected = note();
    return remembers_ && options_.checks && !expected.empty() && read_file(note_path()).value_or("") == expected;
  }
  Result<> remember() {
    const std::string text = note();
    if (!remembers_ || !options_.checks || text.empty()) return {};
    return write_file_atomic(note_path(), text);
  }

  const PublishedSet& set_;
  const PublishedFile& file_;
  const DataGetOptions& options_;
  const Log& log_;
  std::string path_;
  std::string found_;
  bool remembers_ = false;
};

// ---- The functions that get CIFAR.

constexpr int64_t kCifarBytesMax = int64_t{1} << 29;  // limit for all extracted members of an archive together

// Extracts the members with these names, whatever their directory in the archive, into `directory`.
Result<> unpack(const std::string& archive, const std::vector<std::string>& names, int64_t bytes_max,
                const std::string& directory) {
  std::vector<std::string> found;
  DT_TRY_VOID(data::walk_tar_gz(archive, bytes_max, [&](const std::string& member, int64_t) -> data::TakePiece {
    const std::string name = fs::path(member).filename().string();
    if (std::ranges::find(names, name) == names.end()) return nullptr;
    found.push_back(name);
    auto file = std::make_shared<std::ofstream>(directory + "/" + name, std::ios::binary | std::ios::trunc);
    return [file, path = directory + "/" + name](Bytes piece) -> Result<> {
      file->write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
      if (piece.empty()) file->close();
      if (!*file) return fail(Code::kData, "{}: {}", path, std::strerror(errno));
      return {};
    };
  }));
  for (const std::string& name : names) {
    if (std::ranges::find(found, name) == found.end())
      return fail(Code::kData, "{}: the archive does not contain {}", archive, name);
  }
  return {};
}

// Encodes the images as PNG, which preserves every pixel, and writes them to a record file in order.
Result<int64_t> write_records(const data::ImageSource& source, const std::string& path, const DataGetOptions& options) {
  constexpr int64_t kBlock = 1024;
  DT_TRY(data::RecordWriter writer, data::RecordWriter::create(path));
  ThreadPool pool(std::max(options.threads, 1), "data-get");
  for (int64_t first = 0; first < source.size(); first += kBlock) {
    if (options.stop != nullptr && *options.stop) return fail(Code::kPreempted, "{}: stopped", path);
    std::vector<Result<std::vector<uint8_t>>> payloads(static_cast<size_t>(std::min(kBlock, source.size() - first)));
    pool.parallel_for(static_cast<int64_t>(payloads.size()), [&](int64_t i) {
      payloads[static_cast<size_t>(i)] = [&]() -> Result<std::vector<uint8_t>> {
        constexpr int kCompression = 9;
        data::ReadScratch scratch;
        float label = 0;
        DT_TRY_VOID(source.read(first + i, scratch, {&label, 1}));
        DT_TRY(const images::Image* image, scratch.decode());
        DT_TRY(const std::vector<uint8_t> png, images::encode_image(*image, ".png", kCompression));
        std::vector<uint8_t> payload;
        data::append_image_record(payload, static_cast<uint64_t>(first + i), {&label, 1}, png);
        return payload;
      }();
    });
    for (size_t i = 0; i < payloads.size(); i++) {
      DT_TRY_VOID(payloads[i]);
      DT_TRY_VOID(writer.append(static_cast<uint64_t>(first) + i, *payloads[i]));
    }
  }
  DT_TRY_VOID(writer.commit());
  return source.size();
}

Result<> convert_cifar(const PublishedSet& set, data::Cifar kind, const DataGetOptions& options, const Log& log) {
  const data::CifarForm& files = data::cifar_forms(kind).front();
  const std::string archive = options.out + "/" + set.files[0].name, directory = options.out + "/unpacked.part";
  DT_TRY_VOID(make_directories(directory));
  log.info("unpacking '{}'", archive);
  std::vector<std::string> all = files.train;
  all.push_back(files.test);
  DT_TRY_VOID(unpack(archive, all, kCifarBytesMax, directory));
  const auto convert = [&](const std::vector<std::string>& names, const std::string& out) -> Result<> {
    std::vector<std::string> paths;
    paths.reserve(names.size());
    for (const std::string& name : names) paths.push_back(fmt::format("{}/{}", directory, name));
    DT_TRY(const auto source, data::open_cifar(kind, paths));
    DT_TRY(const int64_t count, write_records(*source, out, options), "writing '{}'", out);
    log.info("wrote {} images to '{}'", count, out);
    return {};
  };
  DT_TRY_VOID(convert(files.train, options.out + "/train.rec"));
  DT_TRY_VOID(convert({files.test}, options.out + "/test.rec"));
  std::error_code ignored;
  fs::remove_all(directory, ignored);
  fs::remove(archive, ignored);
  return {};
}

bool has_all(const std::string& directory, const std::vector<std::string>& names) {
  std::error_code ignored;
  return std::ranges::all_of(names,
                             [&](const std::string& name) { return fs::exists(directory + "/" + name, ignored); });
}

Result<> get_cifar(const PublishedSet& set, data::Cifar kind, const DataGetOptions& options, const Log& log) {
  if (has_all(options.out, {"train.rec", "train.idx", "test.rec", "test.idx"})) {
    log.info("'{}' already contains train.rec and test.rec", options.out);
    return {};
  }
  DT_TRY_VOID(Fetch(set, set.files[0], options, log).run());
  return convert_cifar(set, kind, options, log);
}

// The flags about encoding apply only to ImageNet; the images of the other sets keep every pixel.
Result<> check_encoding(const PublishedSet& set, const DataGetOptions& options) {
  const DataGetOptions defaults;
  const bool is_default = options.resize == defaults.resize && options.val_resize == defaults.val_resize &&
                          options.quality == defaults.quality;
  if (set.name == "imagenet" || is_default) return {};
  return fail(Code::kUsage, "--resize, --val-resize and --quality are for imagenet; the images of {} are not changed",
              set.name);
}

// Checks that the idx files can be read: without checksums, a web server's error page could be mistaken for the data
// set.
Result<> check_idx(const std::string& directory) {
  for (const char* name : {"train", "t10k"}) {
    DT_TRY_VOID(data::open_idx(fmt::format("{}/{}-images-idx3-ubyte.gz", directory, name),
                               fmt::format("{}/{}-labels-idx1-ubyte.gz", directory, name)),
                "checking the format of the files (delete this file before you try again)");
  }
  return {};
}

Result<> check_directory(const std::string& out) {
  DT_TRY_VOID(make_directories(out));
  if (::access(out.c_str(), W_OK) == 0) return {};
  return fail(Code::kData, "--out {}: {}", out, std::strerror(errno));
}

Result<> get_into_directory(const PublishedSet& set, const DataGetOptions& options, const Log& log) {
  if (set.name == "imagenet") {
    const auto fetch = [&](const PublishedFile& file) -> Result<std::string> {
      Fetch one(set, file, options, log);
      DT_TRY_VOID(one.use_in_place());
      return one.path();
    };
    DT_TRY_VOID(get_imagenet(set, options, fetch, log));
    std::error_code absent;
    for (const PublishedFile& file : set.files) fs::remove(options.out + "/" + file.name + ".checked", absent);
    return {};
  }
  if (const auto kind = data::cifar_named(set.name)) return get_cifar(set, *kind, options, log);
  for (const PublishedFile& file : set.files) DT_TRY_VOID(Fetch(set, file, options, log).run());
  if (set.name == "mnist" && !options.checks) DT_TRY_VOID(check_idx(options.out));
  return {};
}

}  // namespace

Result<PublishedSet> published_set(const std::string& name) {
  std::vector<std::string> names;
  for (const PublishedSet& set : published_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  return fail(Code::kUsage, "dtrain data get {}: there is no such data set; choose from: {}", name,
              fmt::join(names, ", "));
}

Result<> get_data(const PublishedSet& set, const DataGetOptions& options, const Log& log) {
  DT_TRY_VOID(check_address(set, options));
  DT_TRY_VOID(check_encoding(set, options));
  std::error_code error;
  const bool is_new = !fs::exists(options.out, error);
  DT_TRY_VOID(check_directory(options.out));
  Result<> got = get_into_directory(set, options, log);
  if (got) return {};
  if (is_new)
    fs::remove(options.out, error);  // fails if the directory holds a partial download; the next try continues from it
  Error why = got.error();
  if (why.code == Code::kUnavailable) why.message += fmt::format("; {}", kWithoutNetwork);
  return tl::unexpected(why);
}

}  // namespace dtrain::dataset
