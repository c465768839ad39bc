// `bench kv` in a single process: each CPU device has all arrays, and the store connects the devices.
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "bench/kv.h"
#include "bench/kv_plan.h"

namespace dtrain::bench {

// How often the exchange of the small key is timed.
inline constexpr uint64_t kSmallRounds = 300;

Result<BenchKvResult> bench_devices(const BenchKvOptions& options, const KvPlan& plan,
                                    const std::function<void(std::string_view)>& line);

}  // namespace dtrain::bench
