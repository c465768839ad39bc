// The key-value stores, by their --kv-store names (docs/schemes.md, "Stores"). The name is parsed once, into a Store;
// lower-level libraries never see the name.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::job {

// Where gradients are summed.
enum class Sum { kHost, kDevice, kNccl, kGloo };
// Where the optimizer runs.
enum class Update { kStore, kWorker };
enum class Scheme { kBsp, kAsp, kSsp, kGsp };

struct Store {
  Sum sum = Sum::kDevice;
  bool servers = false;
  Update update = Update::kStore;
  Scheme scheme = Scheme::kBsp;
  // True if the store joins the devices of all workers, not only those of one process.
  [[nodiscard]] bool spans_workers() const { return servers || sum == Sum::kNccl || sum == Sum::kGloo; }
  bool operator==(const Store&) const = default;
};

// The canonical name for a name or an alias, which must match exactly: "dist" gives "dist_sync". Code::kUsage, with the
// list of names, for an unknown one.
Result<std::string> canonical_store_name(std::string_view name);

// The store with this canonical name. Throws CheckFailed for any other text.
Store store_by_name(std::string_view canonical_name);

}  // namespace dtrain::job
