// A cluster of Slurm on this host, with the partitions debug and short (2 minutes): slurmctld here and a slurmd on
// each of the hosts, which are network namespaces (hosts.h). Node I, counted from 0, is named nodeI+1. Needs root and
// the packages that scripts/setup installs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "support/held_port.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {

class Slurm {
 public:
  // Returns null and sets `why_not` if Slurm or the hosts cannot be started on this host.
  static std::unique_ptr<Slurm> make(int nodes, std::string& why_not);
  ~Slurm() = default;
  Slurm(const Slurm&) = delete;
  Slurm& operator=(const Slurm&) = delete;

  [[nodiscard]] const Hosts& hosts() const { return *hosts_; }
  // Options for a process on this host that can use Slurm's commands.
  [[nodiscard]] ProcessOptions options(const std::string& directory) const;
  // What squeue lists; empty if no job is queued or runs.
  [[nodiscard]] std::string queue() const;
  // The processes on the hosts, except those of ssh and Slurm.
  [[nodiscard]] std::string processes() const;
  // Waits until there are no such processes and no jobs; returns false when the time is up.
  [[nodiscard]] bool all_quiet(double seconds) const;
  // Ends the service that checks who a user is: as kill -9 does, after which Slurm's commands try for almost a minute
  // to reach it, or in order.
  void stop_munge() { munged_.reset(); }
  void end_munge();

 private:
  Slurm() = default;
  void write_configuration() const;
  bool start(std::string& why_not);
  [[nodiscard]] bool nodes_are_idle() const;
  [[nodiscard]] std::string configuration() const { return dir_.path("slurm.conf"); }

  TempDir dir_;
  HeldPort port_;  // of the controller
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<Process> munged_, controller_;  // they end in the reverse order
  std::vector<std::unique_ptr<Process>> daemons_;
};

}  // namespace dtrain::test
