// An image as OpenCV sees it. Included only by sources that use OpenCV.
#pragma once

#include <opencv2/core.hpp>

#include "images/image.h"

namespace dtrain::images {

// A cv::Mat that borrows the pixels, for reading or writing.
inline cv::Mat view(const Image& image) {
  return {image.height, image.width, CV_8UC(image.channels), const_cast<uint8_t*>(image.pixels.data())};
}

}  // namespace dtrain::images
