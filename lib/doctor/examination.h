// Examines the hosts of a job for `dtrain doctor`: starts `dtrain examine-host` on all of them at the same time, using
// the same agents that would start the job's processes, and lets each host connect to every other host.
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
  // Flags for the examination of this host, used if there are no other hosts and the job has a single process, whose
  // flags they are. Otherwise the flags of the job's scheduler are used.
  std::vector<std::string> arguments_here;
  bool is_distributed = false;  // the job has several processes
  Asked asked;
  // The address at which other hosts can connect to this host; empty if there are no other hosts, or if the address
  // could not be determined (see address_error).
  std::string address;
  std::string address_error = {};
  std::vector<std::string> names;  // names of the hosts; each host tries to resolve all of them
  std::function<void(const std::string& text)> progress = nullptr;
};

// Code::kPreempted: a signal arrived; kStartup: the program that connects to the hosts (such as ssh) cannot be executed
// on this host.
Result<Examined> examine(const ExaminationSetting& setting);

// The rounds in which the paths between `hosts` hosts are measured. In each round, a host belongs to at most one pair.
std::vector<std::vector<std::pair<size_t, size_t>>> rounds_of(size_t hosts);

}  // namespace dtrain::doctor
