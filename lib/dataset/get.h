// dtrain data get: downloads a data set and leaves the files that --data-dir recognizes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "net/web/digest.h"

namespace dtrain::dataset {

// A file of a data set, as its authors publish it.
struct PublishedFile {
  std::string name;
  net::DigestKind kind = net::DigestKind::kMd5;
  std::string digest;       // hexadecimal
  bool of_content = false;  // the digest is that of the content without gzip, which may be compressed in many ways
};

struct PublishedSet {
  std::string name;     // "mnist"
  std::string address;  // of the directory with the files; empty: it must be given, because the files are not public
  std::vector<PublishedFile> files;
};
// mnist, cifar10, cifar100, imagenet. Code::kUsage for other names.
Result<PublishedSet> published_set(const std::string& name);

struct DataGetOptions {
  std::string out;     // the directory for the data set; it is made
  std::string url;     // the address of the directory with the files; empty: that of the set
  bool checks = true;  // refuse files whose checksum is not that of the published ones
  int resize = 480;    // imagenet: the shorter edge of the training images
  int val_resize = 256;
  int quality = 95;
  int threads = 0;   // 0: one
  int attempts = 5;  // of a download
  std::chrono::milliseconds first_pause{1000};
  const std::atomic<bool>* stop = nullptr;
};

// Leaves in options.out: mnist: the four idx files; cifar10 and cifar100: train.rec, test.rec and their indexes. What
// was downloaded and is not needed any more is removed. A set that is there already is left alone. Every step can be
// ended at any point: the next call continues.
//
// Code::kNotFound, kUnavailable: the address does not have a file, or does not answer; kData: a file is not the
// published one (it is removed), or the directory cannot be written; kUsage: no address, or one that is no address.
Result<> get_data(const PublishedSet& set, const DataGetOptions& options, const Log& log);

}  // namespace dtrain::dataset
