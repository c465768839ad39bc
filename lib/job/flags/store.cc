#include "job/flags/store.h"

#include <fmt/ranges.h>
#include <array>

#include "base/nearest.h"

namespace dtrain::job {

namespace {

struct StoreRow {
  std::string_view name;
  std::array<std::string_view, 2> aliases;
  Store store;
};

constexpr std::array<StoreRow, 13> kStores = {{
    {"local", {"local_update_cpu", "local_allreduce_cpu"}, {Sum::kHost, false, Update::kStore, Scheme::kBsp}},
    {"device", {"local_allreduce_device", ""}, {Sum::kDevice, false, Update::kStore, Scheme::kBsp}},
    {"nccl", {}, {Sum::kNccl, false, Update::kStore, Scheme::kBsp}},
    {"nccl_allreduce", {}, {Sum::kNccl, false, Update::kWorker, Scheme::kBsp}},
    {"allreduce", {}, {Sum::kGloo, false, Update::kWorker, Scheme::kBsp}},
    {"dist_sync", {"dist", ""}, {Sum::kHost, true, Update::kStore, Scheme::kBsp}},
    {"dist_device_sync", {"dist_sync_device", ""}, {Sum::kDevice, true, Update::kStore, Scheme::kBsp}},
    {"dist_async", {}, {Sum::kHost, true, Update::kStore, Scheme::kAsp}},
    {"dist_device_async", {}, {Sum::kDevice, true, Update::kStore, Scheme::kAsp}},
    {"dist_ssync", {}, {Sum::kHost, true, Update::kStore, Scheme::kSsp}},
    {"dist_device_ssync", {}, {Sum::kDevice, true, Update::kStore, Scheme::kSsp}},
    {"dist_gsync", {}, {Sum::kHost, true, Update::kStore, Scheme::kGsp}},
    {"dist_device_gsync", {}, {Sum::kDevice, true, Update::kStore, Scheme::kGsp}},
}};

const StoreRow* find(std::string_view name) {
  for (const StoreRow& row : kStores) {
    if (!name.empty() && (row.name == name || row.aliases[0] == name || row.aliases[1] == name)) return &row;
  }
  return nullptr;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const StoreRow& row : kStores) {
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
  if (row != nullptr) return std::string(row->name);
  const std::optional<std::string> near = nearest(name, names());
  return fail(Code::kUsage, "there is no store '{}'{} The stores are: {}", name,
              near ? fmt::format(", did you mean '{}'?", *near) : ".", fmt::join(names(), ", "));
}

Store store_by_name(std::string_view canonical_name) {
  const StoreRow* row = find(canonical_name);
  DT_CHECK(row != nullptr && row->name == canonical_name, "'{}' is not the canonical name of a store", canonical_name);
  return row->store;
}

}  // namespace dtrain::job
