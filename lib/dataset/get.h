// dtrain data get: downloads a data set and creates the files that --data-dir recognizes.
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

// A file of a data set as its authors publish it.
struct PublishedFile {
  std::string name;
  net::DigestKind kind = net::DigestKind::kMd5;
  std::string digest;       // hexadecimal
  bool of_content = false;  // the digest is that of the decompressed content, because gzip may compress it in many ways
};

struct PublishedSet {
  std::string name;     // "mnist"
  std::string address;  // address of the directory with the files; empty: the user must give it, because the files are
                        // not public
  std::vector<PublishedFile> files;
};
// mnist, cifar10, cifar100, imagenet. Code::kUsage for other names.
Result<PublishedSet> published_set(const std::string& name);

struct DataGetOptions {
  std::string out;     // the directory for the data set; it is created
  std::string url;     // the address of the directory with the files; empty: the data set's own address
  bool checks = true;  // refuse files whose checksum differs from the published one
  int resize = 480;    // imagenet: the shorter edge of the training images
  int val_resize = 256;
  int quality = 95;
  int threads = 0;   // 0: one
  int attempts = 5;  // number of tries for a download
  std::chrono::milliseconds first_pause{1000};
  const std::atomic<bool>* stop = nullptr;
};

// Creates in options.out: for mnist, the four idx files; for cifar10 and cifar100, train.rec, test.rec and their
// indexes. Downloaded files that are no longer needed are removed. A data set that already exists is not changed. Every
// step can be interrupted at any point: the next call continues.
//
// Code::kNotFound, kUnavailable: the address does not have a file, or does not answer; kData: a file is not the
// published one (it is removed), or the directory cannot be written; kUsage: there is no address, or it is malformed.
Result<> get_data(const PublishedSet& set, const DataGetOptions& options, const Log& log);

}  // namespace dtrain::dataset
