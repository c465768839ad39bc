// The data that a process trains and validates with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/loading/open.h"
#include "data/loading/synthetic.h"
#include "data/sources/locate.h"

namespace dtrain::job {
struct Flags;
struct JobFlags;
struct AugmentFlags;
}  // namespace dtrain::job

namespace dtrain::role {

// How training images are distorted.
images::Distortion distortion_of(const job::AugmentFlags& augment);

// The options with which the data set is opened, from the flags.
data::DataOptions data_options(const job::Flags& flags);
// The synthetic data of --benchmark 1, drawn for `rank`. It is one data set for all workers, so shares work as usual:
// each worker draws its own data into its share.
data::SyntheticOptions synthetic_options(const job::JobFlags& flags, uint32_t rank);

// Locates the files that --data-dir and the related flags name, by file name alone. If no data set is named, it is
// recognized from the files. Errors: see data::locate.
Result<data::Located> locate_data(const job::Flags& flags);

// The record files that --data-dir and the related flags name. Empty with --benchmark 1 and for other kinds of data
// sets.
Result<std::vector<data::IndexedFile>> record_files(const job::Flags& flags);
// Looks for the files that the data flags name, for a job whose processes all run on this host. Returns whether there
// is validation data. Errors: see locate_data; Code::kNotFound if a list of labels does not exist.
Result<bool> check_data_files(const job::Flags& flags);
// Completes the flags that depend on the data set, which is recognized from its files unless flags name it.
Result<> apply_own_data_set(job::Flags& flags);
// Describes the network's input: "images (3, 28, 28), mean 123.68,116.779,103.939, deviation 1, scale 1".
std::string pixels_text(const job::Flags& flags);
// Logs what was found and how it is passed to the network. Writes RUN_DIR/synset.txt with the names of the classes, if
// the data set has such names. `flags` are complete.
Result<> introduce_data(const job::Flags& flags, const data::DataSets& data, const std::string& run_dir,
                        const Log& log);

// Opens the data that --data-dir and the related flags name; with --benchmark 1, synthetic batches drawn for `rank`.
// `known` maps paths of record files without an index to their offsets.
Result<data::DataSets> open_data(const job::Flags& flags, uint32_t rank, const Log& log, data::KnownOffsets known = {});
// Opens the images that the names denote (data/sources/named_images.h), as the validation data of these flags.
Result<std::shared_ptr<const data::Dataset>> open_images(const job::Flags& flags, const std::vector<std::string>& names,
                                                         const Log& log);
}  // namespace dtrain::role
