// dtrain data stat: what record files contain, and the images that training sees, as a sheet or an array.
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
  bool decodes = false;  // decode every image, to find damage after the headers
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
  int64_t images = 0;  // number of sound records with an image whose header is sound
  int64_t image_bytes = 0;
  int64_t broken_count = 0;
  std::vector<Broken> broken;                // the first kBrokenShown, in order of file and offset
  std::map<float, int64_t> labels;           // the first label of an image, and the number of images that have it
  std::map<uint32_t, int64_t> label_counts;  // the number of labels of an image, and the number of such images
  std::map<std::string, int64_t> formats;    // "JPEG, color"
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;  // height and width
  std::map<int, int64_t> orientations;                   // values of EXIF's tag except 1
  static constexpr size_t kBrokenShown = 100;

  [[nodiscard]] std::string text() const;  // for people, on several lines
  [[nodiscard]] std::string json() const;
};

// Reads all records of the files: only their headers, unless options.decodes. Code::kNotFound, kData: a file cannot be
// read, or is not a record file. Broken records are not an error; they are counted.
Result<DataStat> data_stat(const std::vector<std::string>& files, const DataStatOptions& options, const Log& log);

// Writes `count` training images as one PNG to `out`: the first ones of the first epoch, augmented according to the
// flags and not normalized, each with its label and its number. The same flags and the same seed give the same file.
// The files are those of --data-train.
Result<> write_sheet(job::Flags flags, int64_t count, const std::string& out, const Log& log);

// Writes the same images as the network receives them, normalized, as one NumPy array to `out`: float32 [n, c, h, w],
// channels red, green, blue; n is `count`, or the number of records if that is smaller.
Result<> write_array(job::Flags flags, int64_t count, const std::string& out, const Log& log);

}  // namespace dtrain::dataset
