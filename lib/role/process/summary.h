// summary.json: the results of a run, written when it ends, even if it fails. See docs/formats.md, "Run directory".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/slow.h"
#include "telemetry/registry.h"

namespace dtrain::role {

struct Summary {
  std::string job;       // the run directory's name; in a job of several processes the name that `dtrain ps` shows
  std::string job_hash;  // hash of the JobSpec
  std::string build;     // the id of the build of dtrain
  std::string network, store;
  int64_t workers = 1, servers = 0;
  std::vector<std::string> devices;  // devices of each worker, such as "cpu(0)"
  std::string dtype = "float32";
  double seconds = 0;
  telemetry::Snapshot metrics;  // metrics of rank 0; all numbers about the training come from them
  // Conclusion of a process that trains alone; in a job, the launcher adds the conclusion of the job.
  observe::Conclusion conclusion;
  int exit_code = 0;
  std::string error;  // the first error of the run; empty: none
};

std::string to_json(const Summary& summary);

}  // namespace dtrain::role
