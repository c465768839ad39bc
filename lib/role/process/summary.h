// summary.json: the results of a run, written when it ends, even if it fails. See docs/formats.md, "Run directory".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/slow.h"
#include "train/data_limit.h"
#include "train/time_to_accuracy.h"

namespace dtrain::role {

struct Summary {
  std::string job;       // the run directory's name; in a job of several processes the name that `dtrain ps` shows
  std::string job_hash;  // of the JobSpec
  std::string build;     // build id
  std::string network, store;
  int64_t workers = 1, servers = 0;
  std::vector<std::string> devices;  // "cpu(0)", by worker
  std::string dtype = "float32";
  int64_t epochs = 0;  // finished epochs
  // nullopt if not measured.
  std::optional<double> train_accuracy, validation_accuracy, best_validation_accuracy;
  std::vector<train::TimeToAccuracy> time_to_train_accuracy, time_to_validation_accuracy;  // --log-time-to
  int64_t epochs_at_chance = 0;  // epochs whose training loss was no better than a guess
  uint64_t samples = 0;          // of the whole job, in this run
  double samples_per_s = 0;      // of the whole job, without validation
  double seconds = 0;
  double wait_data_share = 0, wait_network_share = 0;
  std::map<std::string, double> phases;            // seconds of rank 0's step loop, by phase
  observe::Conclusion conclusion;                  // of a process that trains alone; a launcher adds that of a job
  train::DataLimit data_limit = {};                // of rank 0
  std::map<std::string, uint64_t> peak_rss_bytes;  // by role: "worker 0"
  int exit_code = 0;
  std::string error;  // the first error; empty: none
};

std::string to_json(const Summary& summary);

}  // namespace dtrain::role
