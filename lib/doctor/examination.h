// Examines the hosts of a job for `dtrain doctor`: starts `dtrain examine-host` on all of them at the same time, with
// the same agents that would start the job's processes, and has each host connect to every other one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "doctor/checks.h"
#include "launch/make_job.h"

namespace dtrain::doctor {

struct ExaminationSetting {
  launch::Job job;  // the job whose hosts are examined; none of its processes is started
  // The flags of the process on this host if there are no other hosts and the job has a single process. Otherwise the
  // flags of the job's scheduler are used.
  std::vector<std::string> arguments_here;
  bool is_distributed = false;  // the job has several processes
  Asked asked;
  std::string address;  // address of this host that the other hosts connect to; empty if there are no other hosts, or
                        // if it could not be determined (see address_error)
  std::string address_error = {};
  std::vector<std::string> names;  // names of the hosts, which all hosts resolve
  std::function<void(const std::string& text)> progress = nullptr;
};

// Code::kPreempted: a signal arrived; kStartup: the tool that connects to the hosts cannot be executed here.
Result<Examined> examine(const ExaminationSetting& setting);

// The order in which the paths between N hosts are measured: in each round a host belongs to at most one pair.
std::vector<std::vector<std::pair<size_t, size_t>>> rounds_of(size_t hosts);

}  // namespace dtrain::doctor
