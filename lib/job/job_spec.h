// Everything that defines a job, as one value with one text form (docs/formats.md, "JobSpec"). The scheduler makes it.
// Peers compare its hash when they join. It is written into the run directory, printed by --dry-run and read by
// --resume.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags.h"
#include "job/remembered.h"

namespace dtrain::job {

// Record numbers [begin, end).
struct Interval {
  int64_t begin = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

struct JobSpec {
  JobFlags flags;
  bool mean_image = false;  // --mean-img was given (its path is the process's own)

  // Filled by the scheduler when all have joined, "auto" in the text before. A process that joins compares the text
  // without them: requested().
  int64_t records_train = -1, records_val = -1;  // -1: not known yet
  std::vector<int64_t> groups = {};              // of GSP, by rank
  std::vector<Interval> shares = {};             // by rank
  std::vector<int64_t> batches = {};             // how many batches one pass over the share takes, by rank
  std::string placement = {};                    // kvstore/placement.h: to_text

  // Only in the file of a run directory: not part of text(), hash() and differences().
  Remembered remembered = {};

  // Whether the scheduler has filled in its part: all processes had joined, and the run had begun.
  [[nodiscard]] bool is_complete() const { return !shares.empty(); }
};

// What the flags ask for, nothing filled in.
JobSpec requested(const Flags& flags);

// Lines "key = value\n", sorted by key; keys are names of flags. Equal specs have equal texts and the other way round.
std::string text(const JobSpec& spec);
// The same with the remembered flags behind it: what a run directory holds.
std::string file_text(const JobSpec& spec);
// Back, of either. Code::kUsage names the text, by `name`, and the line: unknown, missing or repeated key, bad value; a
// list that is not one of all workers.
Result<JobSpec> parse_job_spec(std::string_view text, const std::string& name = "JobSpec");

// The spec that lies in a run directory. Code::kNotFound: none does.
inline constexpr const char* kJobSpecFile = "jobspec";
Result<JobSpec> read_job_spec(const std::string& run_dir);
Result<> write_job_spec(const std::string& run_dir, const JobSpec& spec);

uint64_t hash(const JobSpec& spec);
// The keys that differ, sorted.
std::vector<std::string> differences(const JobSpec& a, const JobSpec& b);
// The same of texts, which may come from another version: keys that only one has differ too.
std::vector<std::string> differing_keys(std::string_view a, std::string_view b);
// The same with values, for a message: "batch-size (run 64, here 128), lr (run 0.1, here 0.05)".
std::string describe_differences(const JobSpec& run, const JobSpec& here);

}  // namespace dtrain::job
