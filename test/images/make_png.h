// PNG files of kinds that dtrain does not write.
#pragma once

#include <cstdint>
#include <opencv2/imgcodecs.hpp>
#include <vector>

namespace dtrain::test {

// A gray PNG of 16 bits per channel. The rows have the same length.
inline std::vector<uint8_t> deep_png(const std::vector<std::vector<uint16_t>>& rows) {
  cv::Mat image(static_cast<int>(rows.size()), static_cast<int>(rows[0].size()), CV_16U);
  for (int y = 0; y < image.rows; y++) {
    for (int x = 0; x < image.cols; x++)
      image.at<uint16_t>(y, x) = rows[static_cast<size_t>(y)][static_cast<size_t>(x)];
  }
  std::vector<uint8_t> file;
  cv::imencode(".png", image, file);
  return file;
}

}  // namespace dtrain::test
