// Which requests of the workers a slice has applied, so that it applies none twice.
#pragma once

#include <cstdint>
#include <vector>

#include "kvstore/server/request.h"

namespace dtrain::kvstore {

// A worker numbers its requests from 1, and makes the next request about a slice only when the last one is answered. So
// a request of the same incarnation whose number is not larger than that of the newest applied one is a repetition: the
// worker has sent it again because the connection broke, or the network has doubled or delayed it. Another incarnation
// of the worker begins anew. Not thread-safe.
class AppliedRequests {
 public:
  [[nodiscard]] bool contains(uint32_t rank, RequestId id) const {
    if (rank >= newest_.size()) return false;
    const RequestId& newest = newest_[rank];
    return newest.incarnation == id.incarnation && id.number <= newest.number;
  }
  void add(uint32_t rank, RequestId id) {
    if (rank >= newest_.size()) newest_.resize(rank + 1);
    newest_[rank] = id;
  }

 private:
  std::vector<RequestId> newest_;  // indexed by rank; number 0: none
};

}  // namespace dtrain::kvstore
