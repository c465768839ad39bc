// The table of the training flags, and the flags that are refused by name.
#pragma once

#include <vector>

#include "job/flag_table.h"
#include "job/flags.h"

namespace dtrain::job {

using Row = FlagRow<Flags>;

std::vector<Row> launch_rows();
std::vector<Row> scheme_rows();
std::vector<Row> wire_rows();
std::vector<Row> device_rows();
std::vector<Row> network_rows();
std::vector<Row> data_rows();
std::vector<Row> augment_rows();  // a part of data_rows
std::vector<Row> optimizer_rows();
std::vector<Row> loop_rows();
// Flags of the originals that have no meaning here, and flags that a later version has.
std::vector<RefusedFlag> refused_flags();

// Limits that several flags share.
inline constexpr double kProcessesMax = 65536;  // of a role: ranks are 32-bit numbers, and a scheduler knows each peer
inline constexpr double kThreadsMax = 1024;
inline constexpr double kEpochsMax = 1e9, kStepsMax = 1e9;
inline constexpr double kExamplesMax = 1e12;  // records
inline constexpr double kBatchMax = 1 << 20, kClassesMax = 1e7, kLayersMax = 10000;
inline constexpr double kEdgeMax = 16384;      // of what a network sees
inline constexpr double kImageEdgeMax = 8192;  // of what augmentation makes
inline constexpr double kSecondsMax = 1e7;     // 115 days
inline constexpr double kFactorMax = 1e6;      // rates, and what pixels are multiplied by

// All of them. Made once, never changed.
const FlagTable<Flags>& training_flags();

// Stands in a path for the value of --data-dir.
inline constexpr std::string_view kInDataDir = "{data-dir}/";

}  // namespace dtrain::job
