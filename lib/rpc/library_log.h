// Redirects the log lines of the gRPC library.
#pragma once

#include "base/log.h"

namespace dtrain::rpc {

// While this object exists, gRPC's own log lines ("... Handshake failed with fatal error ...") are written to the files
// of `log` instead of stderr, at most one per second. When it is destroyed, later lines are dropped. What a user needs
// to know is reported separately, as an Error with an address and a cause. A process creates one such object before it
// uses gRPC.
class LibraryLines {
 public:
  explicit LibraryLines(Log log);
  ~LibraryLines();
  LibraryLines(const LibraryLines&) = delete;
  LibraryLines& operator=(const LibraryLines&) = delete;
};

}  // namespace dtrain::rpc
