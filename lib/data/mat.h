// A picture as OpenCV sees it. Only for what is written with OpenCV.
#pragma once

#include <opencv2/core.hpp>

#include "data/image.h"

namespace dtrain::data {

// Borrows the pixels, to read or to write.
inline cv::Mat view(const Image& image) {
  return {image.height, image.width, CV_8UC(image.channels), const_cast<uint8_t*>(image.pixels.data())};
}

}  // namespace dtrain::data
