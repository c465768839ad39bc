// Gathers the facts of this host for `dtrain doctor`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::doctor {

// Gathers facts that do not depend on a job: processor, memory, limits. Never blocks.
void gather_system(Facts& facts);

// Resolves all names at the same time. Takes a few seconds at most.
std::vector<ResolvedName> resolve_names(const std::vector<std::string>& names);

// Finds out where the job's run directory is, and whether it is possible to write there. Creates nothing.
RunDirectory look_at_run_directory(const std::string& path);

// Returns `path` itself if it exists, otherwise the nearest existing directory above it.
std::string nearest_existing(const std::string& path);

// Gathers facts about what the job needs: GPUs, data, memory. With `perf`, it also measures the disk and the decoders,
// which takes a few seconds. `flags`: the flags of a process of the job on this host.
void gather_job(job::Flags flags, bool perf, Facts& facts);

// Returns the files that the job's data flags name, with their checksums. Code::kNotFound, kUsage: see data::locate.
Result<std::vector<DataFile>> data_files(const job::Flags& flags);

// The two measurements that `gather_job` makes with `perf`: the speed of the disk, and how fast images are decoded.
// Each sets its members of `speeds`.
void measure_disk(const RunDirectory& directory, const std::vector<DataFile>& files, Speeds& speeds);
void measure_decoding(const job::Flags& flags, Speeds& speeds);

}  // namespace dtrain::doctor
