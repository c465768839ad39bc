// Encodes JPEG with libjpeg-turbo, to the same bytes as OpenCV's imencode, and rewrites JPEG files without decoding
// their pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

// Keeps the library's memory from image to image. Used by one thread at a time.
class JpegEncoder {
 public:
  struct Options {
    int quality = 95;          // quality of the JPEG, 0 to 100
    int restart_interval = 0;  // a restart marker after every N rows of MCUs (of 8 or 16 pixel rows); 0: none
    bool operator==(const Options&) const = default;
  };

  JpegEncoder();
  ~JpegEncoder();
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  // Appends the file to `out`. The image has 1, 3 or 4 channels; an alpha channel is left out. Code::kData if JPEG
  // cannot represent the image (an edge of more than 65,500 pixels).
  Result<> encode(const Image& image, const Options& options, std::vector<uint8_t>& out);

  // Appends `file`, a JPEG, to `out` with restart markers. The coefficients, and therefore the pixels, are the same,
  // but in one scan for all components and with optimal Huffman tables. All APPn and COM segments (EXIF, ICC profile)
  // are kept. Code::kData as for decoding (jpeg.h).
  Result<> add_restarts(Bytes file, int restart_interval, std::vector<uint8_t>& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dtrain::images
