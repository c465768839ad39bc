#include "dataset/packing/pack.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "data/loading/open.h"
#include "data/make_images.h"
#include "data/records/record_writer.h"
#include "data/sources/record_source.h"
#include "images/make_png.h"
#include "images/opencv_codec.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::dataset;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

// `count` JPEG files and the list of them.
std::vector<ListEntry> write_images(const test::TempDir& dir, int count, int height = 10, int width = 14) {
  std::vector<ListEntry> entries;
  for (int i = 0; i < count; i++) {
    const std::string name = fmt::format("{}.jpg", i);
    test::write_bytes(dir.path(name), must(encode_image(test::gradient_image(height, width, 3, i), ".jpg", 90)));
    entries.push_back({static_cast<uint64_t>(1000 + i), {static_cast<float>(i % 3)}, name});
  }
  return entries;
}

struct Packed {
  uint64_t id;
  float label;
  std::vector<uint8_t> image;
};

// Reads all records by the index that was written.
std::vector<Packed> read_all(const std::string& path) {
  const RecordFile file = must(RecordFile::open(path));
  const auto offsets = must(read_index(index_path(path), file.size()));
  REQUIRE(offsets == must(scan_records(file)).offsets);
  std::vector<Packed> all;
  std::vector<uint8_t> buffer;
  for (const int64_t offset : offsets) {
    const ImageRecord record = must(parse_image_record(must(file.read(offset, 0, buffer))));
    all.push_back({record.id, record.label, {record.image.begin(), record.image.end()}});
  }
  return all;
}

Image decode(Bytes file, int channels = 3) {
  ImageDecoder decoder;
  Image image;
  must(decoder.decode(file, channels, image));
  return image;
}

// Packs into out.rec and returns the log's lines.
std::string log_of_packing(const test::TempDir& dir, const std::vector<ListEntry>& entries,
                           const PackOptions& options) {
  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  must(pack_images(entries, dir.path(), dir.path("out.rec"), options, log));
  log.flush();
  const auto text = test::read_bytes(dir.path("log"));
  std::filesystem::remove(dir.path("log"));
  return {text.begin(), text.end()};
}

}  // namespace

TEST_CASE("packing keeps the list's order for any number of threads", "[data]") {
  const test::TempDir dir;
  const auto entries = write_images(dir, 30);
  std::vector<uint8_t> expected;
  for (const int threads : {1, 3, 8}) {
    PackOptions options;
    options.threads = threads;
    const PackReport report = must(pack_images(entries, dir.path(), dir.path("out.rec"), options, Log::silent()));
    CHECK(report.packed == 30);
    CHECK(report.skipped == 0);
    const auto bytes = test::read_bytes(dir.path("out.rec"));
    if (expected.empty()) expected = bytes;
    CHECK(bytes == expected);
  }
  const auto all = read_all(dir.path("out.rec"));
  REQUIRE(all.size() == 30);
  CHECK(all[7].id == 1007);
  CHECK(all[7].label == 1.0f);
  CHECK(test::read_bytes(dir.path("out.idx"))[0] == '1');  // keys are the list's indices: "1000\t0"
}

TEST_CASE("pass-through keeps the files' bytes", "[data]") {
  const test::TempDir dir;
  const auto entries = write_images(dir, 3);
  PackOptions options;
  options.pass_through = true;
  must(pack_images(entries, dir.path() + "/", dir.path("out.rec"), options, Log::silent()));
  const auto all = read_all(dir.path("out.rec"));
  for (size_t i = 0; i < 3; i++) CHECK(all[i].image == test::read_bytes(dir.path(entries[i].path)));
}

TEST_CASE("all labels are packed on request; otherwise the first one, with a warning that counts the others",
          "[data]") {
  const test::TempDir dir;
  auto entries = write_images(dir, 3);
  entries[1].labels = {4, 5, 6};
  PackOptions options;
  CHECK_THAT(log_of_packing(dir, entries, options),
             Catch::Contains("1 of 3 images have more than one label; only the first is packed"));
  CHECK(read_all(dir.path("out.rec"))[1].label == 4.0f);
  options.pack_label = true;
  CHECK_THAT(log_of_packing(dir, entries, options),
             Catch::Contains(fmt::format("{} has 1 label, but {} has 3: training with --label-width N skips",
                                         entries[0].path, entries[1].path)));
  const RecordFile file = must(RecordFile::open(dir.path("out.rec")));
  const auto offsets = must(scan_records(file)).offsets;
  std::vector<uint8_t> buffer;
  const ImageRecord record = must(parse_image_record(must(file.read(offsets[1], 0, buffer))));
  REQUIRE(record.flag == 3);
  CHECK(record.label_at(0) == 4.0f);
  CHECK(record.label_at(2) == 6.0f);
  CHECK(decode(record.image).width == 14);
}

TEST_CASE("the central square is also cut without resizing", "[data]") {
  const test::TempDir dir;
  const auto entries = write_images(dir, 1);
  must(pack_images(entries, dir.path(), dir.path("out.rec"), {.center_crop = true}, Log::silent()));
  const Image image = decode(read_all(dir.path("out.rec"))[0].image);
  CHECK(image.height == 10);
  CHECK(image.width == 10);
}

TEST_CASE("images of 16 bits are left out and named if JPEG is to keep their colors as stored", "[data]") {
  const test::TempDir dir;
  auto entries = write_images(dir, 1);
  test::write_bytes(dir.path("deep.png"), test::deep_png({{0x8001, 0x4002}}));
  entries.push_back({7, {0}, "deep.png"});
  CHECK(must(pack_images(entries, dir.path(), dir.path("out.rec"), {}, Log::silent())).packed == 2);
  CHECK_THAT(log_of_packing(dir, entries, {.color = -1}),
             Catch::Contains("deep.png") && Catch::Contains("the image has 16 bits per channel"));
  CHECK(read_all(dir.path("out.rec")).size() == 1);
}

TEST_CASE("images are cut, resized, converted to gray and encoded as requested", "[data]") {
  const test::TempDir dir;
  const auto entries = write_images(dir, 1, 10, 14);
  const auto packed = [&](const PackOptions& options) {
    must(pack_images(entries, dir.path(), dir.path("out.rec"), options, Log::silent()));
    return read_all(dir.path("out.rec")).at(0).image;
  };
  PackOptions options;
  options.encoding = ".png";
  const auto original = decode(test::read_bytes(dir.path("0.jpg")));
  CHECK(decode(packed(options)).pixels == original.pixels);
  options.center_crop = true;
  CHECK(decode(packed(options)).pixels == central_square(original).pixels);
  options.resize = 20;
  CHECK(decode(packed(options)).width == 20);
  options.center_crop = false;
  CHECK(decode(packed(options)).width == 28);
  options.color = 0;
  CHECK(test::decode_with_opencv(packed(options), -1).channels == 1);
  options = PackOptions();
  const size_t good = packed(options).size();
  options.quality = 20;
  CHECK(packed(options).size() < good);
}

TEST_CASE("unreadable images are left out; it is an error only if all are unreadable", "[data]") {
  const test::TempDir dir;
  auto entries = write_images(dir, 4);
  entries[1].path = "absent.jpg";
  test::write_text(dir.path("2.jpg"), "not an image");
  const PackReport report = must(pack_images(entries, dir.path(), dir.path("out.rec"), {}, Log::silent()));
  CHECK(report.packed == 2);
  CHECK(report.skipped == 2);
  CHECK(read_all(dir.path("out.rec"))[1].id == 1003);
  entries = {entries[1], entries[2]};
  const auto none = pack_images(entries, dir.path(), dir.path("none.rec"), {}, Log::silent());
  REQUIRE(!none);
  CHECK(none.error().code == Code::kData);
  CHECK(!std::filesystem::exists(dir.path("none.rec")));
}

TEST_CASE("a fault of the disk that passes is tried again; one that lasts ends the run, and skips no image", "[data]") {
  const test::TempDir dir;
  const auto entries = write_images(dir, 5);
  const std::string bad = dir.path("3.jpg");
  must(pack_images(entries, dir.path(), dir.path("good.rec"), {}, Log::silent()));
  std::atomic<int> failing = 3;  // reads of that file that fail
  std::atomic<int> bad_fd = -1, pauses = 0;
  FileCalls calls = FileCalls::of_system();
  calls.open = [&, open = calls.open](const char* path) {
    const int fd = open(path);
    if (path == bad || fd == bad_fd) bad_fd = path == bad ? fd : -1;  // descriptors are used again
    return fd;
  };
  calls.read = [&, read = calls.read](int fd, void* out, size_t bytes, int64_t offset) -> int64_t {
    if (fd == bad_fd && failing > 0) {
      failing--;
      errno = EIO;
      return -1;
    }
    return read(fd, out, bytes, offset);
  };
  calls.pause = [&](std::chrono::milliseconds /*time*/) { pauses++; };
  for (const bool pass_through : {false, true}) {
    const std::string out = dir.path(pass_through ? "pass.rec" : "out.rec");
    const PackOptions options{.pass_through = pass_through};
    failing = 3;
    pauses = 0;
    const PackReport report = must(pack_images(entries, dir.path(), out, options, Log::silent(), {.calls = calls}));
    CHECK((report.packed == 5 && report.skipped == 0 && pauses == 3));
    std::filesystem::remove(out);
    failing = 1'000'000;
    const auto failed = pack_images(entries, dir.path(), out, options, Log::silent(), {.calls = calls});
    REQUIRE(!failed);
    CHECK(failed.error().code == Code::kDevice);
    CHECK_THAT(failed.error().text(), Catch::Contains(bad) && Catch::Contains("after 6 tries") &&
                                          Catch::Contains("image 4 of 5 (the same command continues with this image)"));
    CHECK(!std::filesystem::exists(out));
    failing = 0;
    must(pack_images(entries, dir.path(), out, options, Log::silent(), {.calls = calls}));
    CHECK(read_all(out).size() == 5);
    if (!pass_through) CHECK(test::read_bytes(out) == test::read_bytes(dir.path("good.rec")));
  }
}

TEST_CASE("values out of range are usage errors", "[data]") {
  const auto refused = [](PackOptions options) { return check(options).error().code == Code::kUsage; };
  CHECK(refused({.color = 2}));
  CHECK(refused({.resize = -1}));
  CHECK(refused({.pass_through = true, .resize = 256}));
  CHECK(refused({.pass_through = true, .center_crop = true}));
  CHECK(refused({.encoding = ".gif"}));
  CHECK(refused({.quality = 101}));
  CHECK(refused({.threads = 0}));
  CHECK(check(PackOptions()));
}

TEST_CASE("one slow image does not change the order, and a stopped run is continued", "[data]") {
  const test::TempDir dir;
  auto entries = write_images(dir, 40);
  test::write_bytes(dir.path("5.jpg"), must(encode_image(test::gradient_image(900, 900, 3, 5), ".jpg", 90)));
  must(pack_images(entries, dir.path(), dir.path("whole.rec"), {}, Log::silent()));
  const std::atomic<bool> stop = true;
  const auto stopped =
      pack_images(entries, dir.path(), dir.path("new/out.rec"), {.threads = 3}, Log::silent(), {.stop = &stop});
  REQUIRE(!stopped);
  CHECK(stopped.error().code == Code::kPreempted);
  CHECK_THAT(stopped.error().message, Catch::Contains("The same command continues with the next image"));
  CHECK(!std::filesystem::exists(dir.path("new/out.rec")));
  must(pack_images(entries, dir.path(), dir.path("new/out.rec"), {.threads = 3}, Log::silent()));
  CHECK(test::read_bytes(dir.path("new/out.rec")) == test::read_bytes(dir.path("whole.rec")));
  CHECK(test::read_bytes(dir.path("new/out.idx")) == test::read_bytes(dir.path("whole.idx")));
}

TEST_CASE("a record file and its index appear together or not at all", "[data]") {
  const test::TempDir dir;
  const uint8_t payload[] = {1, 2, 3};
  {
    RecordWriter writer = must(RecordWriter::create(dir.path("a.rec")));
    must(writer.append(5, payload));
  }
  CHECK(std::filesystem::is_empty(dir.path()));
  RecordWriter writer = must(RecordWriter::create(dir.path("a.rec")));
  must(writer.append(5, payload));
  must(writer.append(6, payload));
  must(writer.commit());
  CHECK(test::read_bytes(dir.path("a.idx")).size() == std::string("5\t0\n6\t12\n").size());
}

TEST_CASE("a packed directory is a data set", "[data]") {
  const test::TempDir dir;
  const auto entries = write_images(dir, 6, 32, 32);
  must(pack_images(entries, dir.path(), dir.path("train.rec"), {}, Log::silent()));
  must(pack_images(entries, dir.path(), dir.path("test.rec"), {}, Log::silent()));
  DataOptions options;
  options.data_dir = dir.path();
  CHECK(must(open_dataset(options, Log::silent())).train->size() == 6);
}
