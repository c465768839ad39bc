// Creates the payload of one record from an image file, according to im2rec's options.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/records/image_list.h"
#include "data/records/retrying_file.h"
#include "images/bilinear.h"
#include "images/image.h"
#include "images/jpeg_encoder.h"

namespace dtrain::dataset {

struct PackOptions {
  bool pass_through = false;  // whether to store the files unchanged; then color, size and encoding cannot be changed
  // Colors of the stored images: 1: color; 0: gray; -1: as in the file, which is gray, color or color with alpha, of 8
  // or 16 bits.
  int color = 1;
  bool center_crop = false;  // whether to crop the central square, before resizing
  int resize = 0;            // length of the shorter edge; 0: do not resize
  // Number of an Interpolation, for resizing; kRandom chooses one by the image's position in the list.
  int inter_method = 1;
  std::optional<std::string> encoding = {};  // format of the stored images: ".jpg" (the default) or ".png"
  // Quality of a JPEG, 0 .. 100, 95 by default; for a PNG the compression level, where values above 9 mean 3.
  std::optional<int> quality = {};
  // For JPEGs: number of rows of MCUs between restart markers; 0: none are added (a copied file keeps its markers).
  int restart_interval = 0;
  bool raw = false;         // whether to store the pixels without encoding them
  bool pack_label = false;  // whether to store all labels of an image; otherwise only the first one is stored
  // If an image has several labels, also store the first one in the header, like im2rec.cc; otherwise store 0 there,
  // like im2rec.py.
  bool label_in_header = true;
  int threads = 1;

  [[nodiscard]] std::string encoding_or_default() const { return encoding.value_or(".jpg"); }
  // True if the files are copied unchanged: no image is parsed, not even to add restart markers.
  [[nodiscard]] bool copies_files() const { return pass_through && restart_interval == 0; }
};
// Code::kUsage if a value is out of range, or if an option would have no effect because of another one.
Result<> check(const PackOptions& options);
// All options that affect the content of the records, on one line: "color=1 center_crop=0 ...".
std::string settings_text(const PackOptions& options);

// Where the images of a list are stored.
struct ImageDirectory {
  std::string root;  // directory to which the paths of the entries are relative
  // If not null, it is called to read the image of an entry from elsewhere, such as an archive. Several threads may
  // call it at the same time.
  std::function<Result<std::string>(const data::ListEntry& entry)> read = nullptr;
  data::FileCalls calls = data::FileCalls::of_system();

  [[nodiscard]] std::string path_of(const data::ListEntry& entry) const;
};

// Reuses its memory from image to image. Must be used by one thread at a time.
class ImagePacker {
 public:
  // `options` must have been checked. Disk faults that are overcome by a retry are logged.
  ImagePacker(PackOptions options, ImageDirectory source, const Log& log)
      : options_(std::move(options)), source_(std::move(source)), log_(log) {}

  // Replaces the content of `payload` by the payload for `entry`, which is at position `place` in its list. An error
  // names the file and the reason. Code::kDevice: a disk fault that retries did not overcome (records/retrying_file.h),
  // or a lack of memory; the image may be sound. Any other code: the image cannot be read, or cannot be stored in the
  // requested format.
  Result<> pack(const data::ListEntry& entry, size_t place, std::vector<uint8_t>& payload);

 private:
  Result<> append_image(Bytes file, size_t place, std::vector<uint8_t>& payload);
  Result<> decode(Bytes file);
  Result<> resize(size_t place);
  void resize_bilinear(const images::ImageSize& to);
  Result<> encode(std::vector<uint8_t>& payload);
  Result<> append_deep_image(Bytes file, size_t place, std::vector<uint8_t>& payload);

  PackOptions options_;
  ImageDirectory source_;
  const Log log_;
  images::ImageDecoder decoder_;
  images::JpegEncoder encoder_;
  images::BilinearMemory bilinear_;
  images::Image image_, other_;
  std::vector<uint8_t> file_;
};

}  // namespace dtrain::dataset
