// Files that someone made to do harm, or that were damaged: each is an image or an error, and takes little memory.
#include <zlib.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "data/loading/image_dataset.h"
#include "data/loading/loader.h"
#include "data/records/record_writer.h"
#include "data/sources/record_source.h"
#include "images/image_header.h"
#include "images/make_jpeg.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

using FileBytes = std::vector<uint8_t>;

FileBytes bytes_of_text(std::string_view text) {
  return {text.begin(), text.end()};
}

void append_png_chunk(FileBytes& png, std::string_view type, const FileBytes& content) {
  const auto append_number = [&png](uint32_t number) {
    for (const int shift : {24, 16, 8, 0}) png.push_back(static_cast<uint8_t>(number >> shift));
  };
  append_number(static_cast<uint32_t>(content.size()));
  const size_t begin = png.size();
  png.insert(png.end(), type.begin(), type.end());
  png.insert(png.end(), content.begin(), content.end());
  append_number(static_cast<uint32_t>(crc32(0, png.data() + begin, static_cast<uInt>(png.size() - begin))));
}

// A PNG with 16 bits in each of three channels. Its header says `height` x `width`; its data are `data_bytes` zeros,
// which zlib packs into a thousandth.
FileBytes png_of_zeros(uint32_t height, uint32_t width, size_t data_bytes) {
  FileBytes png = bytes_of_text("\x89PNG\r\n\x1a\n");
  FileBytes header;
  for (const uint32_t edge : {width, height}) {
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<uint8_t>(edge >> shift));
  }
  for (const uint8_t setting : {16, 2, 0, 0, 0}) header.push_back(setting);
  append_png_chunk(png, "IHDR", header);
  const FileBytes zeros(data_bytes);
  uLongf packed_bytes = compressBound(data_bytes);
  FileBytes packed(packed_bytes);
  compress2(packed.data(), &packed_bytes, zeros.data(), data_bytes, 1);
  packed.resize(packed_bytes);
  append_png_chunk(png, "IDAT", packed);
  append_png_chunk(png, "IEND", {});
  return png;
}

// A JPEG whose last scan occurs `scans` times.
FileBytes with_repeated_scan(const FileBytes& progressive, int scans) {
  size_t last_scan = 0;
  for (size_t i = 0; i + 1 < progressive.size(); i++) {
    if (progressive[i] == 0xff && progressive[i + 1] == 0xda) last_scan = i;
  }
  const auto scan = progressive.begin() + static_cast<ptrdiff_t>(last_scan);
  FileBytes out(progressive.begin(), scan);
  for (int i = 0; i < scans; i++) out.insert(out.end(), scan, progressive.end() - 2);
  out.insert(out.end(), {0xff, 0xd9});
  return out;
}

FileBytes jpeg_that_says(int height, int width, const test::JpegKind& kind) {
  FileBytes jpeg = test::make_jpeg(16, 16, kind);
  test::announce_size(jpeg, height, width);
  return jpeg;
}

struct HostileFile {
  std::string name;
  FileBytes bytes;
};

constexpr test::JpegKind kColorJpeg = {};
constexpr test::JpegKind kGrayJpeg = {.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE};
constexpr test::JpegKind kCmykJpeg = {.from = JCS_CMYK, .stored = JCS_CMYK};
constexpr test::JpegKind kProgressiveJpeg = {.progressive = true};
constexpr test::JpegKind kProgressiveCmykJpeg = {.from = JCS_CMYK, .stored = JCS_CMYK, .progressive = true};

// Small files that announce or unpack to something huge, and files that are no images. All must be refused.
std::vector<HostileFile> hostile_files() {
  std::vector<HostileFile> files = {
      {"empty", {}},
      {"text", bytes_of_text("This is no image, whatever the name of the file says.\n")},
      {"zeros", FileBytes(1000)},
      {"JPEG, markers only", {0xff, 0xd8, 0xff, 0xd9}},
      {"JPEG, 10,000 scans", with_repeated_scan(test::make_jpeg(16, 16, kProgressiveJpeg), 10000)},
      {"PNG, 30000 x 30000", png_of_zeros(30000, 30000, 1 << 20)},
      {"PNG, 8000 x 8000", png_of_zeros(8000, 8000, 1 << 20)},
      {"PNG, 2^31 - 1 squared", png_of_zeros(0x7fffffff, 0x7fffffff, 100)},
      {"PNG, no pixels", png_of_zeros(0, 0, 0)},
      {"PNG, too little data", png_of_zeros(2000, 2000, 1000)},
  };
  const std::pair<const char*, const test::JpegKind*> kinds[] = {{"color", &kColorJpeg},
                                                                 {"gray", &kGrayJpeg},
                                                                 {"CMYK", &kCmykJpeg},
                                                                 {"progressive", &kProgressiveJpeg},
                                                                 {"progressive CMYK", &kProgressiveCmykJpeg}};
  for (const auto& [name, kind] : kinds) {
    for (const int edge : {30000, 65500, 8000}) {
      files.push_back({fmt::format("JPEG, {}, {} x {}", name, edge, edge), jpeg_that_says(edge, edge, *kind)});
    }
    files.push_back({fmt::format("JPEG, {}, no rows", name), jpeg_that_says(0, 16, *kind)});
  }
  return files;
}

// Forgets the largest memory of the process so far, and then tells how much more it has taken since. Linux only.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;
    begin_ = kilobytes("VmRSS:");
  }
  [[nodiscard]] int64_t mebibytes() const { return (kilobytes("VmHWM:") - begin_) >> 10; }

 private:
  static int64_t kilobytes(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      int64_t value = 0;
      if (word == name && status >> value) return value;
    }
    return std::numeric_limits<int64_t>::max() / 2;
  }
  int64_t begin_ = 0;
};

constexpr int64_t kPeakMebibytesMax = 256;  // of one thread
constexpr int kLoaderThreads = 2;

// Records of these files, each between two sound images. Returns how many there are.
int64_t write_between_sound(const std::string& path, const std::vector<FileBytes>& files) {
  const FileBytes sound = must(encode_image(test::gradient_image(16, 16, 3, 1), ".png", 9));
  RecordWriter writer = must(RecordWriter::create(path));
  uint64_t id = 0;
  const auto append = [&](const FileBytes& file) {
    must(writer.append(id, test::image_payload(id, static_cast<float>(id % 10), file)));
    id++;
  };
  append(sound);
  for (const FileBytes& file : files) {
    append(file);
    append(sound);
  }
  must(writer.commit());
  return static_cast<int64_t>(id);
}

struct Epoch {
  int64_t read = 0, broken = 0;
};

// Reads a record file by the loader, as validation does.
Epoch read_epoch(const std::string& path) {
  const auto source = must(open_records({.paths = {path}, .index = {}}, Log::silent()));
  const auto dataset = augmented(source, {.image = {3, 16, 16}, .mean = {0, 0, 0}, .std = {1, 1, 1}});
  Loader loader(dataset,
                {.mode = LoaderOptions::Mode::kValidation,
                 .share = {0, dataset->size()},
                 .batch_size = 8,
                 .labels = {{.name = {}, .classes = 10}},
                 .threads = kLoaderThreads,
                 .max_bad_records = dataset->size()},
                Log::silent());
  Epoch epoch;
  loader.start(0);
  while (const LoadedBatch* batch = must(loader.next())) epoch.read += batch->count;
  epoch.broken = loader.bad_records();
  return epoch;
}

}  // namespace

TEST_CASE("a file made to do harm is refused with a reason, and takes little memory", "[data]") {
  for (const auto& [name, bytes] : hostile_files()) {
    INFO(name << ", " << bytes.size() << " bytes");
    const PeakMemory peak;
    ImageDecoder decoder;
    Image image;
    const Result<> decoded = decoder.decode(bytes, 3, image);
    REQUIRE(!decoded);
    CHECK(decoded.error().code == Code::kData);
    CHECK(decoded.error().message.size() > 10);
    CHECK(peak.mebibytes() <= kPeakMebibytesMax);
  }
}

TEST_CASE("a decoder's memory is limited, whatever part of the image is wanted", "[data]") {
  ImageDecoder decoder;
  Image image;
  // All coefficients of a progressive image are kept until its last scan: 2 x 1.5 bytes per pixel.
  const FileBytes progressive = jpeg_that_says(8190, 8190, {.from = JCS_CMYK, .stored = JCS_CMYK, .progressive = true});
  must(decoder.open(progressive, 3));
  const auto refused = decoder.read({.height = 16, .width = 16}, image);
  REQUIRE(!refused);
  CHECK_THAT(refused.error().message, Catch::Contains("MiB, and the limit is 224 MiB"));
  const PeakMemory peak;
  must(decoder.decode(png_of_zeros(4000, 4000, size_t{4000} * (1 + 6 * 4000)), 3, image));
  CHECK(peak.mebibytes() <= kPeakMebibytesMax);
}

TEST_CASE("the loader skips what is not an image, and counts exactly that", "[data]") {
  const test::TempDir dir;
  std::vector<FileBytes> files;
  for (const HostileFile& file : hostile_files()) files.push_back(file.bytes);
  // Each end of a small file of each kind.
  for (const test::JpegKind& kind : {kColorJpeg, kGrayJpeg, kCmykJpeg, kProgressiveJpeg}) {
    const FileBytes whole = test::make_jpeg(16, 16, kind);
    for (size_t length = 0; length + 1 < whole.size(); length += 7) {
      files.emplace_back(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    }
  }
  const FileBytes png = must(encode_image(test::gradient_image(16, 16, 3, 2), ".png", 9));
  for (size_t length = 0; length + 13 < png.size(); length += 7) {
    files.emplace_back(png.begin(), png.begin() + static_cast<ptrdiff_t>(length));
  }
  const int64_t records = write_between_sound(dir.path("hostile.rec"), files);
  const PeakMemory peak;
  const Epoch epoch = read_epoch(dir.path("hostile.rec"));
  CHECK(epoch.broken == static_cast<int64_t>(files.size()));
  CHECK(epoch.read == records - epoch.broken);
  CHECK(peak.mebibytes() <= kLoaderThreads * kPeakMebibytesMax);  // both may hold a large image at a time
}

TEST_CASE("a record file with any bit flipped, or cut off anywhere, is read as far as it is sound", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("small.rec");
  test::write_record_file(path, 3, 4, 4, 3, 10);
  const FileBytes whole = test::read_bytes(path);
  std::vector<uint8_t> buffer;
  const auto read_changed = [&](const FileBytes& bytes) {
    std::filesystem::remove(path);  // file systems are slow to replace the contents of a file
    test::write_bytes(path, bytes);
    const RecordFile file = must(RecordFile::open(path));
    const Result<RecordScan> scan = scan_records(file);
    if (!scan) return;
    REQUIRE(scan->offsets.size() <= 4);
    for (const int64_t offset : scan->offsets) {
      const Result<Bytes> payload = file.read(offset, file.size(), buffer);
      REQUIRE(payload);  // the scan found it sound
      (void)parse_image_record(*payload);
    }
  };
  for (size_t length = 0; length < whole.size(); length++) {
    read_changed({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)});
  }
  for (size_t byte = 0; byte < whole.size(); byte++) {
    for (int bit = 0; bit < 8; bit++) {
      FileBytes flipped = whole;
      flipped[byte] ^= static_cast<uint8_t>(1 << bit);
      read_changed(flipped);
    }
  }
}
