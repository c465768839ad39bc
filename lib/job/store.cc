#include "job/store.h"

#include <array>

#include "base/nearest.h"

namespace dtrain::job {

namespace {

struct StoreRow {
  std::string_view name;
  std::array<std::string_view, 2> aliases;
  Store store;
  bool exists;  // in this version
};

constexpr std::array<StoreRow, 13> kStores = {{
    {"local", {"local_update_cpu", "local_allreduce_cpu"}, {Sum::kHost, false, Update::kStore, Scheme::kBsp}, true},
    {"device", {"local_allreduce_device", ""}, {Sum::kDevice, false, Update::kStore, Scheme::kBsp}, true},
    {"nccl", {}, {Sum::kNccl, false, Update::kStore, Scheme::kBsp}, true},
    {"nccl_allreduce", {}, {Sum::kNccl, false, Update::kWorker, Scheme::kBsp}, true},
    {"allreduce", {}, {Sum::kGloo, false, Update::kWorker, Scheme::kBsp}, true},
    {"dist_sync", {"dist", ""}, {Sum::kHost, true, Update::kStore, Scheme::kBsp}, true},
    {"dist_device_sync", {"dist_sync_device", ""}, {Sum::kDevice, true, Update::kStore, Scheme::kBsp}, true},
    {"dist_async", {}, {Sum::kHost, true, Update::kStore, Scheme::kAsp}, false},
    {"dist_device_async", {}, {Sum::kDevice, true, Update::kStore, Scheme::kAsp}, false},
    {"dist_ssync", {}, {Sum::kHost, true, Update::kStore, Scheme::kSsp}, false},
    {"dist_device_ssync", {}, {Sum::kDevice, true, Update::kStore, Scheme::kSsp}, false},
    {"dist_gsync", {}, {Sum::kHost, true, Update::kStore, Scheme::kGsp}, false},
    {"dist_device_gsync", {}, {Sum::kDevice, true, Update::kStore, Scheme::kGsp}, false},
}};

const StoreRow* find(std::string_view name) {
  for (const StoreRow& row : kStores) {
    if (!name.empty() && (row.name == name || row.aliases[0] == name || row.aliases[1] == name)) return &row;
  }
  return nullptr;
}

std::vector<std::string> names(bool only_existing) {
  std::vector<std::string> all;
  for (const StoreRow& row : kStores) {
    if (only_existing && !row.exists) continue;
    all.emplace_back(row.name);
    for (const std::string_view alias : row.aliases) {
      if (!alias.empty()) all.emplace_back(alias);
    }
  }
  return all;
}

}  // namespace

Result<std::string> canonical_store_name(std::string_view name) {
  const StoreRow* row = find(name);
  if (row != nullptr && row->exists) return std::string(row->name);
  if (row != nullptr) {
    return fail(Code::kUsage, "the store '{}' is not in this version of dtrain; there are: {}", name,
                fmt::join(names(true), ", "));
  }
  const std::optional<std::string> near = nearest(name, names(false));
  return fail(Code::kUsage, "there is no store '{}'{}; there are: {}", name,
              near ? fmt::format(", did you mean '{}'?", *near) : "", fmt::join(names(true), ", "));
}

Store store_by_name(std::string_view canonical_name) {
  const StoreRow* row = find(canonical_name);
  DT_CHECK(row != nullptr && row->name == canonical_name, "'{}' is no canonical store name", canonical_name);
  return row->store;
}

}  // namespace dtrain::job
