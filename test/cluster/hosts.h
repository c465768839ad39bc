// Simulates the hosts of a cluster on this host: each host is a network namespace with its own address, name, /tmp
// and sshd. The script test/cluster/hosts makes them. Needs root and the packages that scripts/setup installs.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {

// Limits for jobs on hosts: until the first step, until the end of a short job, and until all processes of an ended job
// are gone.
constexpr double kHostsStartSeconds = 90, kHostsJobSeconds = 120, kHostsQuietSeconds = 15;

class Hosts {
 public:
  // Returns null and sets `why_not` if hosts cannot be made on this host.
  static std::unique_ptr<Hosts> make(int count, std::string& why_not);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // The address of host i, counted from 0, and the address by which the hosts reach this host.
  [[nodiscard]] std::string address(int i) const;
  [[nodiscard]] std::string gateway() const;
  // The interface by which this host reaches the hosts. The hosts' own interface is eth0.
  [[nodiscard]] std::string interface() const { return "br-dt" + net_; }
  [[nodiscard]] int count() const { return static_cast<int>(addresses_.size()); }
  // The path of a host file with one line per host.
  [[nodiscard]] std::string host_file() const { return dir_.path("addresses"); }

  // Options for a process on this host whose `ssh` reaches the hosts. It runs in `directory` and keeps its records
  // of jobs there.
  [[nodiscard]] ProcessOptions options(const std::string& directory) const;
  // The command line that runs `command` on host i.
  [[nodiscard]] std::vector<std::string> on(int i, const std::vector<std::string>& command) const;
  // The processes on all hosts except sshd, one line each: id and command line.
  [[nodiscard]] std::string processes() const;
  // The id of such a process whose command line contains `words`; 0 if there is none.
  [[nodiscard]] pid_t find_process(const std::string& words) const;
  // Waits until no such process is left; returns false when the time is up.
  [[nodiscard]] bool all_quiet(double seconds) const;
  // The command lines of all calls of ssh so far, one per line.
  [[nodiscard]] std::string ssh_calls() const;
  // Slows host i down, as `limit` of the script says: {"cpu", PERCENT}, {"disk", BYTES, DIRECTORY} or {"network",
  // BYTES}. Returns false and sets `why_not` if this host does not permit it.
  [[nodiscard]] bool limit(int i, const std::vector<std::string>& what, std::string& why_not) const;
  // From now on, no network frame reaches or leaves host i, until mend().
  void cut_off(int i) const;
  void mend(int i) const;
  // From now on, no frame of host i reaches host j, nor the other way round, until mend_between(). Both
  // reach all others.
  void cut_between(int i, int j) const;
  void mend_between(int i, int j) const;
  // Puts host i behind a link that loses and delays frames in both directions, for as long as the object lives. Returns
  // null and sets `why_not` if there are no TAP devices.
  class Link {
   public:
    virtual ~Link() = default;
    [[nodiscard]] virtual uint64_t lost() const = 0;  // frames lost so far
  };
  [[nodiscard]] std::unique_ptr<Link> slow_link(int i, double loss, int delay_ms, std::string& why_not) const;

 private:
  Hosts() = default;
  TempDir dir_;
  std::string net_;
  std::vector<std::string> addresses_;
};

}  // namespace dtrain::test
