// OpenCV's encoders and decoders, whose files and pixels dtrain's must equal, because MXNet uses OpenCV.
#pragma once

#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "images/image.h"
#include "images/mat.h"

namespace dtrain::test {

// `color`: 1 color, 0 gray, -1 as stored. Without pixels if the file cannot be decoded.
inline images::Image decode_with_opencv(Bytes file, int color) {
  const cv::Mat encoded(1, static_cast<int>(file.size()), CV_8U, const_cast<uint8_t*>(file.data()));
  const int flag = (color == 0 ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR) | cv::IMREAD_IGNORE_ORIENTATION;
  const cv::Mat decoded = cv::imdecode(encoded, color < 0 ? cv::IMREAD_UNCHANGED : flag);
  images::Image image;
  image.resize(decoded.rows, decoded.cols, decoded.empty() ? 0 : decoded.channels());
  if (!decoded.empty()) decoded.copyTo(images::view(image));
  return image;
}

// `quality`: of a JPEG, or the level of compression of a PNG.
inline std::vector<uint8_t> encode_with_opencv(const images::Image& image, const std::string& extension, int quality) {
  std::vector<uint8_t> file;
  cv::imencode(extension, images::view(image), file,
               {extension == ".png" ? cv::IMWRITE_PNG_COMPRESSION : cv::IMWRITE_JPEG_QUALITY, quality});
  return file;
}

}  // namespace dtrain::test
