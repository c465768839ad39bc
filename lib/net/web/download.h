// Downloads of large files by libcurl: http, https and file addresses, with the proxy that the environment names.
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
  std::string path;  // where the bytes are written; if the file exists, they are appended to those that are there
  // Called often: bytes that are there, and those of the whole file; 0 if the server does not say.
  std::function<void(int64_t have, int64_t total)> progress = nullptr;
  const std::atomic<bool>* stop = nullptr;      // ends the download if it becomes true
  int attempts = 5;                             // in a row without a new byte
  std::chrono::milliseconds first_pause{1000};  // before the second attempt; twice as long before each later one
  std::chrono::seconds stall_max{60};           // an attempt fails if no byte comes for so long
};

struct Downloaded {
  int64_t bytes = 0;
  bool was_resumed = false;  // some of the bytes were there before
};

// Errors that may pass (no connection, a connection that breaks, a server that is busy) are logged and tried again,
// from the last byte on if the server can do that, and otherwise from the first. Certificates are verified.
//
// Code::kNotFound: the server does not have the file; kUnavailable: it does not answer, or refuses, after all attempts;
// kData: the file cannot be written, or there is not enough space for it; kPreempted: stopped; kStartup: the module
// with libcurl cannot be loaded (base/module.h). What was received stays, for the next call.
Result<Downloaded> download(const DownloadOptions& options, const Log& log);

}  // namespace dtrain::net
