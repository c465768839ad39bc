// What gRPC itself writes to stderr.
#pragma once

#include "base/log.h"

namespace dtrain::rpc {

// While this object lives, gRPC's own lines ("... Handshake failed with fatal error ...") go to the files of `log` instead of
// to stderr, at most one a second; after it, they go nowhere. What a user must know of them comes as an Error with an address
// and a cause. A process has one, which it makes before it uses gRPC.
class LibraryLines {
 public:
  explicit LibraryLines(Log log);
  ~LibraryLines();
  LibraryLines(const LibraryLines&) = delete;
  LibraryLines& operator=(const LibraryLines&) = delete;
};

}  // namespace dtrain::rpc
