// Converts ILSVRC12 from its tar archives to record files, without unpacking them to disk.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/records/image_list.h"
#include "data/records/tar.h"
#include "dataset/get.h"

namespace dtrain::dataset {

// The images of an archive: a list that can be packed, and where the archive holds the content of each image.
struct ArchivedImages {
  std::vector<data::ListEntry> entries;
  std::vector<std::string> classes;      // names of the classes, indexed by label
  std::vector<data::TarMember> members;  // where the archive holds the image of each entry, indexed by the entry's id
};

// Lists the images in an archive of archives, with one inner archive for each class: "n01440764.tar" holds the images
// of class n01440764. Classes are numbered in the order of their names; images are listed in the order of class and
// name. `read` and `end`: as for list_tar. Code::kData: the archive has another structure.
Result<ArchivedImages> training_images(const data::ReadTar& read, int64_t end, const std::string& name, const Log& log);

// Lists the images ILSVRC2012_val_00000001.JPEG and so on in an archive. Line n of `ground_truth` is the ILSVRC2012_ID
// of the class of image n, which `synsets` maps to the name of the class. Code::kData: an image has no label, or its
// class is not in `classes`.
Result<ArchivedImages> validation_images(const data::ReadTar& read, int64_t end, const std::string& name,
                                         const std::string& ground_truth, const std::map<int64_t, std::string>& synsets,
                                         const std::vector<std::string>& classes);

// Downloads the three archives (archives at a file:/// address are read in place), and packs their images into
// train.rec, with a shorter edge of options.resize pixels, and val.rec, with a shorter edge of options.val_resize
// pixels. Continues where an earlier call was interrupted. Writes the names of the classes to synset.txt.
Result<> get_imagenet(const PublishedSet& set, const DataGetOptions& options,
                      const std::function<Result<std::string>(const PublishedFile& file)>& fetch, const Log& log);

}  // namespace dtrain::dataset
