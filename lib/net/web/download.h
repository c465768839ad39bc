// Downloads large files with libcurl: http, https and file addresses, with the proxy that the environment names.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::net {

struct DownloadOptions {
  std::string url;
  std::string path;  // the output file; if it exists, bytes are appended to it
  // Called often, with the number of bytes received so far and the size of the whole file; the size is 0 if the server
  // does not report it.
  std::function<void(int64_t have, int64_t total)> progress = nullptr;
  const std::atomic<bool>* stop = nullptr;      // ends the download if it becomes true
  int attempts = 5;                             // number of successive attempts that may bring no new byte
  std::chrono::milliseconds first_pause{1000};  // pause before the second attempt; it doubles before each later one
  std::chrono::seconds stall_max{60};           // an attempt fails if no byte arrives for this long
};

struct Downloaded {
  int64_t bytes = 0;
  bool was_resumed = false;  // whether the file already had some of the bytes
};

// After a temporary error (no connection, a broken connection, a busy server), which is logged, the download is
// retried. It continues after the last received byte if the server supports that, and otherwise from the beginning.
// Certificates are verified.
//
// Code::kNotFound: the server does not have the file; kUnavailable: it does not answer, or refuses, after all attempts;
// kData: the file cannot be written, or there is not enough space for it; kPreempted: stopped; kStartup: the module
// with libcurl cannot be loaded (base/module.h). Received bytes are kept for the next call.
Result<Downloaded> download(const DownloadOptions& options, const Log& log);

}  // namespace dtrain::net
