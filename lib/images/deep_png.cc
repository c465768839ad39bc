#include "images/deep_png.h"

#include <opencv2/imgproc.hpp>

#include "images/png.h"

namespace dtrain::images {

Result<std::vector<uint8_t>> change_png(Bytes file, const std::function<Result<PngChange>(ImageSize)>& change,
                                        int level) {
  cv::Mat image;
  DT_TRY_VOID(decode_png(file, PngColors::kAsStored, [&image](const PngLayout& layout) {
    image.create(layout.height, layout.width, CV_MAKETYPE(layout.bits == 8 ? CV_8U : CV_16U, layout.channels));
    return image.data;
  }));
  DT_TRY(const PngChange wanted, change({image.rows, image.cols}));
  try {
    cv::Mat changed = image(cv::Rect(wanted.cut.x, wanted.cut.y, wanted.cut.width, wanted.cut.height));
    if (wanted.size.height != changed.rows || wanted.size.width != changed.cols) {
      cv::Mat resized;
      cv::resize(changed, resized, cv::Size(static_cast<int>(wanted.size.width), static_cast<int>(wanted.size.height)),
                 0, 0, static_cast<int>(wanted.method));
      changed = resized;
    }
    if (!changed.isContinuous()) changed = changed.clone();
    const PngLayout layout{.height = changed.rows,
                           .width = changed.cols,
                           .channels = changed.channels(),
                           .bits = static_cast<int>(8 * changed.elemSize1())};
    return encode_png(changed.data, layout, level);
  } catch (const cv::Exception& e) {
    return fail(Code::kData, "{}", e.err);
  }
}

}  // namespace dtrain::images
