// libjpeg-turbo behind ImageDecoder.
#pragma once

#include <memory>

#include "base/error.h"
#include "data/image.h"

namespace dtrain::data {

// Keeps the library's memory from picture to picture. One thread at a time.
class JpegDecoder {
 public:
  enum class Outcome { kDecoded, kNotOurs };  // kNotOurs: CMYK and YCCK, where OpenCV's conversion is the truth

  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `channels` is 1 or 3. Code::kData as ImageDecoder says.
  Result<Outcome> decode(Bytes file, int channels, Image& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_jpeg(Bytes file);

}  // namespace dtrain::data
