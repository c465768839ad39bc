// libjpeg-turbo behind ImageDecoder.
#pragma once

#include <memory>

#include "base/error.h"
#include "data/image.h"

namespace dtrain::data {

// Keeps the library's memory from picture to picture. Used by one thread at a time.
class JpegDecoder {
 public:
  // A file with more scans is refused, because each scan goes over all pixels. Encoders write about ten.
  static constexpr int kScansMax = 100;

  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `channels` is 1, 3, or 0 for the channels as stored (3 for CMYK). CMYK and YCCK are converted with OpenCV's
  // formula. Code::kData as in ImageDecoder.
  Result<> decode(Bytes file, int channels, Image& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_jpeg(Bytes file);

}  // namespace dtrain::data
