// Examines the hosts of a job for `dtrain doctor`: starts `dtrain examine-host` on all of them at the same time, by the
// same agents that would start the job's processes, and has each host connect to each other one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "doctor/checks.h"
#include "launch/make_job.h"

namespace dtrain::doctor {

struct ExaminationSetting {
  launch::Job job;  // whose hosts are examined; nothing of it is started
  // Without other hosts: the flags of a process on this host. Otherwise those of the job's scheduler are taken.
  std::vector<std::string> arguments_here;
  bool is_distributed = false;  // the job has several processes
  Asked asked;
  std::string address;  // of this host, for the hosts; empty: there are none, or address_error says why
  std::string address_error = {};
  std::vector<std::string> names;  // of the hosts, which all hosts resolve
  std::function<void(const std::string& text)> progress = nullptr;
};

// Code::kPreempted: a signal arrived; kStartup: the tool that reaches the hosts cannot be executed here.
Result<Examined> examine(const ExaminationSetting& setting);

// In which order the paths between N hosts are measured: in each round a host belongs to one pair at most.
std::vector<std::vector<std::pair<size_t, size_t>>> rounds_of(size_t hosts);

}  // namespace dtrain::doctor
