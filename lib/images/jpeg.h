// Decodes JPEGs for ImageDecoder. BaselineJpeg decodes the files that it supports, and libjpeg-turbo all others.
#pragma once

#include <memory>

#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

// Used by one thread at a time. The result for an image does not depend on earlier images.
class JpegDecoder {
 public:
  // The limit on the number of scans. Encoders write about ten; a file with more scans than this is refused, because
  // each scan covers all pixels.
  static constexpr int kScansMax = 100;

  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // As in ImageDecoder. `channels` is 1, 3, or 0 for the channels as stored (3 for CMYK). CMYK and YCCK are converted
  // with OpenCV's formula.
  Result<ImageSize> open(Bytes file, int channels);
  Result<Window> read(const Window& wanted, Image& out);

 private:
  struct State;
  Window start(Window wanted, Image& out);
  void read_rows(const Window& part, Image& out);
  void finish();
  std::unique_ptr<State> state_;
};

bool is_jpeg(Bytes file);

}  // namespace dtrain::images
