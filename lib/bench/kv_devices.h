// `bench kv` with a store of one process: each CPU device has all arrays, and the store connects the devices.
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "bench/kv.h"
#include "bench/kv_plan.h"

namespace dtrain::bench {

// The number of timed exchanges of the small key.
inline constexpr uint64_t kSmallRounds = 300;

Result<BenchKvResult> bench_devices(const BenchKvOptions& options, const KvPlan& plan,
                                    const std::function<void(std::string_view)>& line);

}  // namespace dtrain::bench
