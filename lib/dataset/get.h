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
  std::string digest;  // the checksum of the file, in hexadecimal
  // Whether `digest` is that of the decompressed content, because the same content can be compressed to many different
  // gzip files.
  bool of_content = false;
};

struct PublishedSet {
  std::string name;  // name of the data set, such as "mnist"
  // Address of the directory with the files; empty if they are not public: the user must then give the address.
  std::string address;
  std::vector<PublishedFile> files;
};
// mnist, cifar10, cifar100, imagenet. Code::kUsage for other names.
Result<PublishedSet> published_set(const std::string& name);

struct DataGetOptions {
  std::string out;     // the directory for the data set; it is created
  std::string url;     // the address of the directory with the files; empty: the data set's own address
  bool checks = true;  // whether to refuse files whose checksum differs from the published one
  int resize = 480;    // length of the shorter edge of the training images; only for imagenet
  int val_resize = 256;
  int quality = 95;
  int threads = 0;   // number of threads that encode images; 0: one thread
  int attempts = 5;  // number of tries to download a file
  std::chrono::milliseconds first_pause{1000};
  const std::atomic<bool>* stop = nullptr;
};

// Creates the data set in options.out: the four idx files of mnist, or train.rec, test.rec and their indexes for
// cifar10 and cifar100 (for imagenet: imagenet_get.h). Removes downloaded files that are no longer needed. Does not
// change a data set that already exists. May be interrupted at any point: the next call continues from there.
//
// Code::kNotFound, kUnavailable: the address does not have a file, or does not answer; kData: a file is not the
// published one (it is removed), or the directory cannot be written; kUsage: there is no address, or it is malformed.
Result<> get_data(const PublishedSet& set, const DataGetOptions& options, const Log& log);

}  // namespace dtrain::dataset
