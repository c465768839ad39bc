// dtrain data stat: what record files contain; and the images that training sees, as a contact sheet or an array.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::dataset {

struct DataStatOptions {
  bool decodes = false;  // whether to decode every image, to also find damage behind the headers
  int threads = 1;
};

struct DataStat {
  struct File {
    std::string path;
    int64_t bytes = 0;
    int64_t records = 0;  // number of sound records
  };
  struct Broken {
    std::string file;
    int64_t offset = 0;
    std::string reason;
  };
  std::vector<File> files;
  int64_t images = 0;  // number of sound records whose image has a sound header
  int64_t image_bytes = 0;
  int64_t broken_count = 0;
  std::vector<Broken> broken;       // the first kBrokenShown broken places, in order of file and offset
  std::map<float, int64_t> labels;  // maps each first label to the number of images that have it
  // Maps each number of labels per image to the number of images that have this number.
  std::map<uint32_t, int64_t> label_counts;
  std::map<std::string, int64_t> formats;                // maps for example "JPEG, color" to a number of images
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;  // maps height and width to a number of images
  std::map<int, int64_t> orientations;  // maps values of EXIF's orientation tag other than 1 to the number of images
  static constexpr size_t kBrokenShown = 100;

  [[nodiscard]] std::string text() const;  // the statistics as text for people, on several lines
  [[nodiscard]] std::string json() const;
};

// Examines all records of the files: only the headers, unless options.decodes is set. Code::kNotFound, kData: a file
// cannot be read, or is not a record file. Broken records are not an error; they are counted.
Result<DataStat> data_stat(const std::vector<std::string>& files, const DataStatOptions& options, const Log& log);

// Writes a contact sheet of `count` training images to `out`, as one PNG: the first images of the first epoch,
// augmented according to the flags but not normalized, each with its label and its number. The same flags and the same
// seed give the same file. The images come from the files of --data-train.
Result<> write_sheet(job::Flags flags, int64_t count, const std::string& out, const Log& log);

// Writes the same images as write_sheet, but normalized, exactly as the network receives them, to `out`. The file is
// one NumPy array, float32 [n, c, h, w], with the channels red, green, blue; n is `count`, or the number of records if
// that is smaller.
Result<> write_array(job::Flags flags, int64_t count, const std::string& out, const Log& log);

}  // namespace dtrain::dataset
