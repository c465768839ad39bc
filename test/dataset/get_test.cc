// dtrain data get with small files of the published ones' form, from file:/// addresses. test/net/download_test.cc has
// downloads over HTTP.
#include "dataset/get.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "data/loading/open.h"
#include "data/make_gzip.h"
#include "data/make_tar.h"
#include "data/records/record_file.h"
#include "dataset/matlab_file.h"
#include "dataset/synth.h"
#include "images/image.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::dataset;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::tar_end;
using dtrain::test::tar_member;

namespace {

namespace fs = std::filesystem;

void put_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string hex_digest(net::DigestKind kind, const std::string& content) {
  net::Digester digester(kind);
  digester.add(std::as_bytes(std::span(content)));
  return digester.hex();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// `source` has the published files, `out` is where they go.
struct Directories {
  test::TempDir dir;
  std::string source = dir.path("source"), out = dir.path("out");
  Directories() { fs::create_directories(source); }

  [[nodiscard]] DataGetOptions options() const {
    DataGetOptions options;
    options.out = out;
    options.url = "file://" + source;
    options.threads = 2;
    options.attempts = 1;
    return options;
  }
};

// A set of one file, which is left as it is.
PublishedSet one_file(const std::string& name, net::DigestKind kind, const std::string& digest, bool of_content) {
  return {"one", "https://127.0.0.1:1", {{name, kind, digest, of_content}}};
}

std::string cifar_records(int count) {
  std::string bytes;
  for (int i = 0; i < count; i++) bytes += static_cast<char>(i % 10) + std::string(3072, static_cast<char>(i));
  return bytes;
}

std::string cifar_archive() {
  std::string archive = tar_member("cifar-10-batches-bin/readme.html", "x");
  for (int i = 1; i <= 5; i++) {
    archive += tar_member("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", cifar_records(20));
  }
  return archive + tar_member("../../../test_batch.bin", cifar_records(10)) + tar_end();
}

}  // namespace

TEST_CASE("a file is kept if its digest is right, whatever compressed it", "[dataset]") {
  const Directories directories;
  test::write_gzip(directories.source + "/a.gz", "content");
  const PublishedSet set =
      one_file("a.gz", net::DigestKind::kSha256, hex_digest(net::DigestKind::kSha256, "content"), true);
  must(get_data(set, directories.options(), Log::silent()));
  CHECK(names_in(directories.out) == std::vector<std::string>{"a.gz"});
  // It is there already, so the source is not needed.
  fs::remove(directories.source + "/a.gz");
  must(get_data(set, directories.options(), Log::silent()));
}

TEST_CASE("a download that is not the published file is removed and named", "[dataset]") {
  const Directories directories;
  put_file(directories.source + "/a.bin", "content");
  const PublishedSet set = one_file("a.bin", net::DigestKind::kMd5, std::string(32, '0'), false);
  const Error error = get_data(set, directories.options(), Log::silent()).error();
  CHECK(error.code == Code::kData);
  CHECK_THAT(error.message, Contains("/a.bin: this is not the published file: its MD5 checksum is " +
                                     hex_digest(net::DigestKind::kMd5, "content")) &&
                                Contains("The download was deleted"));
  CHECK(!fs::exists(directories.out));
  DataGetOptions options = directories.options();
  options.checks = false;
  must(get_data(set, options, Log::silent()));
  CHECK(names_in(directories.out) == std::vector<std::string>{"a.bin"});

  // This file was not there as a download of this call, so it stays.
  CHECK_THAT(get_data(set, directories.options(), Log::silent()).error().message,
             Contains("this is not the published file"));
  CHECK(names_in(directories.out) == std::vector<std::string>{"a.bin"});
}

TEST_CASE("a download that was ended is continued; one of another file is started again", "[dataset]") {
  for (const char* there : {"cont", "kont", "content", "content and more"}) {
    const Directories directories;
    put_file(directories.source + "/a.bin", "content");
    fs::create_directories(directories.out);
    put_file(directories.out + "/a.bin.part", there);
    const PublishedSet set =
        one_file("a.bin", net::DigestKind::kMd5, hex_digest(net::DigestKind::kMd5, "content"), false);
    INFO(there);
    must(get_data(set, directories.options(), Log::silent()));
    CHECK(must(read_file(directories.out + "/a.bin")) == "content");
  }
}

TEST_CASE("wrong addresses and directories are refused", "[dataset]") {
  const Directories directories;
  const PublishedSet set = must(published_set("mnist"));
  DataGetOptions options = directories.options();
  CHECK(get_data(set, options, Log::silent()).error().code == Code::kNotFound);  // the directory is empty
  CHECK(!fs::exists(directories.out));
  options.out = directories.dir.path("file");
  put_file(options.out, "x");
  CHECK(!get_data(set, options, Log::silent()));
  options.out = directories.out;
  options.url = "/data";
  CHECK(get_data(set, options, Log::silent()).error().code == Code::kUsage);
  options.url = "";
  CHECK_THAT(get_data(must(published_set("imagenet")), options, Log::silent()).error().message, Contains("licensed"));
  CHECK(published_set("mnits").error().code == Code::kUsage);
}

TEST_CASE("a download that fails for want of a network says what to train on without one", "[dataset]") {
  const Directories directories;
  DataGetOptions options = directories.options();
  options.url = "http://127.0.0.1:1";
  options.attempts = 1;
  const Error error = get_data(must(published_set("mnist")), options, Log::silent()).error();
  CHECK(error.code == Code::kUnavailable);
  CHECK_THAT(error.message, Contains("127.0.0.1") && Contains("build/quickstart-data"));
}

TEST_CASE("without checksums, the files of MNIST must still have their form", "[dataset]") {
  const Directories directories;
  const PublishedSet set = must(published_set("mnist"));
  for (const PublishedFile& file : set.files)
    put_file(directories.source + "/" + file.name, "<html>log in first</html>");
  DataGetOptions options = directories.options();
  options.checks = false;
  const auto refused = get_data(set, options, Log::silent());
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kData);
  CHECK_THAT(refused.error().message, Contains("train-images-idx3-ubyte.gz"));
}

TEST_CASE("flags for images that are encoded are refused for the sets that keep theirs", "[dataset]") {
  const Directories directories;
  for (const char* name : {"mnist", "cifar10", "cifar100"}) {
    for (int DataGetOptions::*field :
         {&DataGetOptions::resize, &DataGetOptions::val_resize, &DataGetOptions::quality}) {
      DataGetOptions options = directories.options();
      options.*field = 80;
      const auto refused = get_data(must(published_set(name)), options, Log::silent());
      REQUIRE(!refused);
      CHECK(refused.error().code == Code::kUsage);
    }
  }
}

// The archive also has a member that would leave the directory, under the name of a file that is wanted.
TEST_CASE("CIFAR's archive becomes record files with the same pixels, and nothing else", "[dataset]") {
  const Directories directories;
  test::write_gzip(directories.source + "/cifar-10-binary.tar.gz", cifar_archive());
  DataGetOptions options = directories.options();
  options.checks = false;
  const PublishedSet set = must(published_set("cifar10"));
  must(get_data(set, options, Log::silent()));
  CHECK(names_in(directories.out) == std::vector<std::string>{"test.idx", "test.rec", "train.idx", "train.rec"});
  data::DataOptions opening;
  opening.data_dir = directories.out;
  opening.data_type = "cifar10";
  opening.image_shape = {3, 32, 32};
  opening.rgb_mean = {0, 0, 0};
  const data::DataSets sets = must(data::open_dataset(opening, Log::silent()));
  REQUIRE(sets.train->size() == 100);
  REQUIRE(sets.validation->size() == 10);
  std::vector<float> pixels(3 * 32 * 32);
  float label = 0;
  RandomStream random(1, Use::kTest);
  must(sets.train->load(37, random, pixels, {&label, 1}));  // the 17th of the second file
  CHECK(label == 7.0f);
  CHECK(pixels == std::vector<float>(pixels.size(), 17.0f));

  options.url = "file:///nowhere";  // not looked at, because the set is there
  must(get_data(set, options, Log::silent()));
}

TEST_CASE("a damaged archive of CIFAR is refused, and the next call starts again", "[dataset]") {
  const Directories directories;
  DataGetOptions options = directories.options();
  options.checks = false;
  const PublishedSet set = must(published_set("cifar10"));
  test::write_gzip(directories.source + "/cifar-10-binary.tar.gz",
                   tar_member("data_batch_1.bin", cifar_records(3)) + tar_end());
  CHECK_THAT(get_data(set, options, Log::silent()).error().message,
             Contains("the archive does not contain data_batch_2.bin"));
  CHECK_FALSE(fs::exists(directories.out + "/train.rec"));
}

// ---- ILSVRC12

namespace {

std::string word(uint32_t value, int bytes = 4) {
  std::string text;
  for (int i = 0; i < bytes; i++) text += static_cast<char>(value >> (8 * i));
  return text;
}

// An element of a MATLAB file.
std::string element(uint32_t type, const std::string& content) {
  return word(type) + word(static_cast<uint32_t>(content.size())) + content +
         std::string((8 - content.size() % 8) % 8, '\0');
}

std::string matlab_array(uint32_t array_class, uint32_t rows, uint32_t columns, const std::string& rest) {
  return element(
      14, element(6, word(array_class) + word(0)) + element(5, word(rows) + word(columns)) + element(1, "") + rest);
}

std::string matlab_text(const std::string& text) {
  std::string wide;
  for (const char c : text) wide += std::string{c, '\0'};
  return matlab_array(4, 1, static_cast<uint32_t>(text.size()), element(4, wide));
}

// The table of the devkit: synset i has the ID i + 1.
std::string synset_table(const std::vector<std::string>& synsets, bool compresses) {
  std::string fields;
  for (const char* name : {"ILSVRC2012_ID", "WNID", "words"})
    fields += std::string(name) + std::string(32 - strlen(name), '\0');
  std::string values = word(5, 2) + word(4, 2) + word(32) + element(1, fields);
  for (size_t i = 0; i < synsets.size(); i++) {
    values += matlab_array(6, 1, 1, element(2, std::string(1, static_cast<char>(i + 1))));
    values += matlab_text(synsets[i]) + matlab_text("some words");
  }
  std::string table = matlab_array(2, static_cast<uint32_t>(synsets.size()), 1, values);
  if (compresses) {
    std::string packed(compressBound(table.size()), '\0');
    uLongf size = packed.size();
    compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(table.data()),
             table.size());
    packed.resize(size);
    table = word(15) + word(static_cast<uint32_t>(size)) + packed;
  }
  std::string header = "MATLAB 5.0 MAT-file";
  header.resize(124, ' ');
  return header + word(0x100, 2) + "IM" + table;
}

std::string jpeg_of(int64_t label, uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  const auto jpeg = must(images::encode_image(draw_synthetic(label, 10, 40, random), ".jpg", 90));
  return {jpeg.begin(), jpeg.end()};
}

// The classes' archives are not in the order of their names, and neither are the IDs.
const std::vector<std::string> kSynsets = {"n03000684", "n01440764", "n02119789"};

void put_ilsvrc(const std::string& directory) {
  std::string train, val;
  for (const std::string& synset : kSynsets) {
    std::string inner;
    for (uint64_t i = 0; i < 4; i++) inner += tar_member(fmt::format("{}_{}.JPEG", synset, i), jpeg_of(1, i));
    train += tar_member(synset + ".tar", inner + tar_end());
  }
  for (int i = 1; i <= 3; i++) val += tar_member(fmt::format("ILSVRC2012_val_{:08d}.JPEG", i), jpeg_of(2, 9));
  put_file(directory + "/ILSVRC2012_img_train.tar", train + tar_end());
  put_file(directory + "/ILSVRC2012_img_val.tar", val + tar_end());
  test::write_gzip(directory + "/ILSVRC2012_devkit_t12.tar.gz",
                   tar_member("ILSVRC2012_devkit_t12/data/meta.mat", synset_table(kSynsets, true)) +
                       tar_member("ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "3\n1\n2\n") +
                       tar_end());
}

std::vector<float> labels_in(const data::Dataset& set) {
  std::vector<float> labels, pixels(static_cast<size_t>(element_count(set.image())));
  for (int64_t i = 0; i < set.size(); i++) {
    RandomStream random(1, Use::kTest);
    must(set.load(i, random, pixels, {&labels.emplace_back(), 1}));
  }
  return labels;
}

}  // namespace

TEST_CASE("ILSVRC12's archives become record files, without being unpacked", "[dataset]") {
  const Directories directories;
  put_ilsvrc(directories.source);
  DataGetOptions options = directories.options();
  options.checks = false;
  options.resize = 32;
  options.val_resize = 24;
  const PublishedSet set = must(published_set("imagenet"));
  must(get_data(set, options, Log::silent()));
  CHECK(must(read_file(directories.out + "/synset.txt")) == "n01440764\nn02119789\nn03000684\n");
  data::DataOptions opening;
  opening.data_train = directories.out + "/train.rec";
  opening.data_val = directories.out + "/val.rec";
  opening.image_shape = {3, 24, 24};
  const data::DataSets sets = must(data::open_dataset(opening, Log::silent()));
  std::vector<float> labels = labels_in(*sets.train);
  CHECK_FALSE(std::ranges::is_sorted(labels));  // shuffled
  std::ranges::sort(labels);
  CHECK(labels == std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  // Images 1, 2, 3 have the IDs 3, 1, 2, and these the synsets n02119789, n03000684, n01440764.
  std::vector<float> of_validation = labels_in(*sets.validation);
  std::ranges::sort(of_validation);
  CHECK(of_validation == std::vector<float>{0, 1, 2});

  fs::remove_all(directories.source);  // a complete set is left alone
  must(get_data(set, options, Log::silent()));
}

TEST_CASE("archives of ILSVRC12 are checked once, and again if they change", "[dataset]") {
  const Directories directories;
  put_ilsvrc(directories.source);
  PublishedSet set = must(published_set("imagenet"));
  for (PublishedFile& file : set.files) {
    net::Digester digester(file.kind);
    const std::string content = must(read_file(directories.source + "/" + file.name));
    digester.add(std::as_bytes(std::span(content)));
    file.digest = digester.hex();
  }
  std::atomic<bool> stop = true;  // ends the check of a file, and the packing
  DataGetOptions options = directories.options();
  options.stop = &stop;
  const std::string archive = directories.source + "/ILSVRC2012_img_val.tar";
  const auto failure = [&] { return get_data(set, options, Log::silent()).error().message; };
  CHECK_THAT(failure(), Contains("stopped while the file was being checked"));
  stop = false;
  const std::string devkit = directories.source + "/ILSVRC2012_devkit_t12.tar.gz";
  const std::string content = must(read_file(devkit));
  put_file(devkit, "x");  // the first one: nothing else is looked at
  CHECK_THAT(failure(), Contains("this is not the published file"));
  put_file(devkit, content);
  // A directory in the place of a record file ends the run after the checks.
  fs::create_directories(directories.out + "/val.rec.partial");
  CHECK(!get_data(set, options, Log::silent()));
  stop = true;  // a check would end at once
  CHECK_THAT(failure(), !Contains("checked"));
  fs::last_write_time(archive, fs::last_write_time(archive) + std::chrono::seconds(1));
  CHECK_THAT(failure(), Contains("ILSVRC2012_img_val.tar: stopped while the file was being checked"));
  stop = false;
  fs::remove(directories.out + "/val.rec.partial");
  must(get_data(set, options, Log::silent()));
  CHECK(!fs::exists(directories.out + "/ILSVRC2012_img_val.tar.checked"));
}

TEST_CASE("archives of ILSVRC12 that do not fit together are refused", "[dataset]") {
  const PublishedSet set = must(published_set("imagenet"));
  const auto refusal = [&](const std::string& name, const std::string& content, bool gzip) {
    const Directories directories;
    put_ilsvrc(directories.source);
    (gzip ? test::write_gzip : put_file)(directories.source + "/" + name, content);
    DataGetOptions options = directories.options();
    options.checks = false;
    return get_data(set, options, Log::silent()).error().message;
  };
  CHECK_THAT(refusal("ILSVRC2012_img_train.tar", tar_member("a.JPEG", "x") + tar_end(), false),
             Contains("the archive contains no archive of a class"));
  CHECK_THAT(refusal("ILSVRC2012_img_train.tar", tar_member("n01440764.tar", "x") + tar_end(), false),
             Contains("n01440764"));
  CHECK_THAT(refusal("ILSVRC2012_img_val.tar", tar_member("ILSVRC2012_val_00000004.JPEG", "x") + tar_end(), false),
             Contains("the devkit's ground truth has 3 lines"));
  CHECK_THAT(refusal("ILSVRC2012_devkit_t12.tar.gz", tar_member("x", "x") + tar_end(), true), Contains("or meta.mat"));
}

TEST_CASE("the devkit's table is read, cut and with flipped bits", "[dataset]") {
  for (const bool compresses : {false, true}) {
    const std::string table = synset_table(kSynsets, compresses);
    const auto synsets = must(read_synsets(as_bytes(table), "meta.mat"));
    CHECK(synsets == std::map<int64_t, std::string>{{1, kSynsets[0]}, {2, kSynsets[1]}, {3, kSynsets[2]}});
    for (size_t length = 0; length < table.size(); length++) {
      const std::string cut = table.substr(0, length);
      const auto read = read_synsets(as_bytes(cut), "meta.mat");
      CHECK((read || read.error().code == Code::kData));
    }
    for (size_t bit = 0; bit < table.size() * 8; bit++) {
      std::string flipped = table;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      const auto read = read_synsets(as_bytes(flipped), "meta.mat");
      CHECK((read || read.error().code == Code::kData));
    }
  }
}
