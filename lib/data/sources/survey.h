// The labels and image sizes of a set: facts by which a data set is recognized.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain::data {

struct Survey {
  bool complete = true;      // whether every label was read; otherwise a sample spread over the file was read
  bool are_classes = true;   // the labels that were read are integers from 0 to kLabelMax
  std::set<int64_t> labels;  // the distinct labels
  // The shape [c, h, w] of the images that were examined; nullopt if their sizes differ, or if no image was examined. c
  // is 3 if some are in color.
  std::optional<Shape> image;
  std::string unreadable = {};  // for class directories: the first image that cannot be read, and the reason
  std::string sizes;            // sizes of the examined images, for messages: "32 x 32", "from 120 x 80 to 640 x 480"
  bool gray = false;            // whether some of the examined images are gray
  bool color = false;           // whether some of the examined images are in color
  // The number of channels of a network that takes all of these images. It is 3 if some are in color, because gray
  // images can be expanded to color. 0: there are no images.
  [[nodiscard]] int64_t channels() const { return color ? 3 : gray ? 1 : 0; }

  // The number of classes k if all labels were read and exactly the values 0 .. k-1 occur.
  [[nodiscard]] std::optional<int64_t> classes() const;
  // "10 labels from 0 to 9 and images of 32 x 32", "2 labels from 0 to 1 and gray images from 40 x 30 to 300 x
  // 200".
  [[nodiscard]] std::string text() const;
};
constexpr int64_t kLabelMax = (int64_t{1} << 20) - 1;

// Reads all labels if the record files have up to 1 GiB in total; otherwise those at 1024 places in each file.
// Code::kNotFound; kData: these are not record files.
Result<Survey> survey_records(const std::vector<std::string>& paths);
// Like survey_records, for class directories: the labels are the numbers of the directories `classes` in `root`. Images
// of up to eight classes are examined.
Result<Survey> survey_directory(const std::string& root, const std::vector<std::string>& classes);

}  // namespace dtrain::data
