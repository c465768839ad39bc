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
  bool complete = true;      // every label was read; otherwise a sample spread over the file
  bool are_classes = true;   // the labels that were read are integers from 0 to kLabelMax
  std::set<int64_t> labels;  // the distinct labels
  // [c, h, w] of the images that were examined; nullopt if their sizes differ, or there are none. c is 3 if some are in
  // color.
  std::optional<Shape> image;
  std::string unreadable = {};  // for class directories: the first image that cannot be read, and why
  std::string sizes;            // sizes of these images, for messages: "32 x 32", "from 120 x 80 to 640 x 480"
  bool gray = false;            // some of them are gray
  bool color = false;           // some of them are in color
  // The number of channels for a network that takes all of them, because gray images can be expanded to color. 0: there
  // are no images.
  [[nodiscard]] int64_t channels() const { return color ? 3 : gray ? 1 : 0; }

  // The number of classes k if all labels were read and exactly the values 0 .. k-1 occur.
  [[nodiscard]] std::optional<int64_t> classes() const;
  // "10 labels from 0 to 9 and images of 32 x 32", "2 labels from 0 to 1 and gray images from 40 x 30 to 300 x
  // 200".
  [[nodiscard]] std::string text() const;
};
constexpr int64_t kLabelMax = (int64_t{1} << 20) - 1;

// Reads all labels of record files of up to 1 GiB in total; of larger ones, those in 1024 places each. Code::kNotFound;
// kData: not record files.
Result<Survey> survey_records(const std::vector<std::string>& paths);
// The labels are the numbers of the directories `classes` in `root`. Images of up to eight classes are examined.
Result<Survey> survey_directory(const std::string& root, const std::vector<std::string>& classes);

}  // namespace dtrain::data
