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

// Facts that every host can provide: processor, memory, limits. Does not wait for anything.
void gather_system(Facts& facts);

// Resolves the names, all at the same time, for a few seconds at most.
std::vector<ResolvedName> resolve_names(const std::vector<std::string>& names);

// The location of a job's run directory, and whether it could be written. Creates nothing.
RunDirectory look_at_run_directory(const std::string& path);

// The nearest existing directory on the path to `path`.
std::string nearest_existing(const std::string& path);

// What the job needs: GPUs, data, memory. With `perf` it also measures the disk and the decoders, which takes a few
// seconds. `flags`: those of a process of the job on this host.
void gather_job(job::Flags flags, bool perf, Facts& facts);

// The files that the job's data flags name, with their checksums. Code::kNotFound, kUsage: as for data::locate.
Result<std::vector<DataFile>> data_files(const job::Flags& flags);

// The parts of `gather_job` that are measured.
void measure_disk(const RunDirectory& directory, const std::vector<DataFile>& files, Speeds& speeds);
void measure_decoding(const job::Flags& flags, Speeds& speeds);

}  // namespace dtrain::doctor
