// Everything that defines a job, as one value with one text form (docs/formats.md, "JobSpec"). The scheduler makes it.
// Peers compare its hash when they join. It is written into the run directory, printed by --dry-run and read by
// --resume.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags/flags.h"
#include "job/spec/remembered.h"

namespace dtrain::job {

// Record numbers [begin, end).
struct Interval {
  int64_t begin = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

struct JobSpec {
  JobFlags flags;
  bool mean_image = false;  // --mean-img was given; the path itself may differ between processes
  bool label_list = false;  // --path-imglist was given; the workers compare the lists when the job starts

  // The members up to `placement` are filled in by the scheduler when all processes have joined. Until then, text()
  // writes "auto" for them. The specs that are compared when a process joins do not have them yet (see requested()).
  // Number of records of the training and the validation set; -1: not known yet.
  int64_t records_train = -1, records_val = -1;
  std::vector<int64_t> groups = {};   // the group of each worker, indexed by rank; only for GSP
  std::vector<Interval> shares = {};  // the records of each worker, indexed by rank
  std::vector<int64_t> batches = {};  // number of batches in one pass over the share, indexed by rank
  std::string placement = {};         // which server holds each slice, as kvstore/wire/placement.h writes it

  // Only stored in the file in the run directory; not part of text(), hash() and differences().
  Remembered remembered = {};

  // Flags that the text lacks because an older version of dtrain wrote it, and whose old meaning, which they have here,
  // is not the present default (former_value() in remembered.h). Only set by parse_job_spec() and read_job_spec().
  std::vector<std::string> older_flags = {};

  // True once the scheduler has filled in its part: all processes have joined, and the run has begun.
  [[nodiscard]] bool is_complete() const { return !shares.empty(); }
};

// The spec that the flags ask for, without the part that the scheduler fills in.
JobSpec requested(const Flags& flags);

// Lines "key = value\n", sorted by key; most keys are names of flags. Two specs have equal texts if and only if they
// are equal.
std::string text(const JobSpec& spec);
// text(spec), followed by the remembered flags: the content of the file in a run directory.
std::string file_text(const JobSpec& spec);
// Parses either text. Code::kUsage, naming `name` and the line, for an unknown, missing or repeated key, a bad value,
// or a list that does not have one value per worker.
Result<JobSpec> parse_job_spec(std::string_view text, const std::string& name = "JobSpec");

// The spec in a run directory. Code::kNotFound if there is none.
inline constexpr const char* kJobSpecFile = "jobspec";
Result<JobSpec> read_job_spec(const std::string& run_dir);
Result<> write_job_spec(const std::string& run_dir, const JobSpec& spec);

uint64_t hash(const JobSpec& spec);
// The keys whose values differ, sorted.
std::vector<std::string> differences(const JobSpec& a, const JobSpec& b);
// Like differences, for two texts, which may come from different versions of dtrain. Values of an older version count
// as equal to values of this version that have the same meaning. If one of the texts is not a JobSpec, keys that only
// one of them has count as different.
std::vector<std::string> differing_keys(std::string_view a, std::string_view b);
// The differences with their values, for a message: "batch-size (run 64, here 128), lr (run 0.1, here 0.05)".
std::string describe_differences(const JobSpec& run, const JobSpec& here);

}  // namespace dtrain::job
