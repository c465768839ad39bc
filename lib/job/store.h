// The key-value stores, by their --kv-store names (docs/schemes.md, "Stores"). The name is parsed once, into a Store;
// no lower room looks at the name.
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
  // It joins the devices of all workers, not only those of one process.
  [[nodiscard]] bool spans_workers() const { return servers || sum == Sum::kNccl || sum == Sum::kGloo; }
  bool operator==(const Store&) const = default;
};

// The canonical name of an exact name or alias: "dist" is "dist_sync". Code::kUsage with the list for an unknown one.
Result<std::string> canonical_store_name(std::string_view name);

// The store of a canonical name; CheckFailed for any other text.
Store store_by_name(std::string_view canonical_name);

}  // namespace dtrain::job
