// Hosts of a cluster on this machine: network namespaces with addresses, names, /tmp and sshd of their own
// (test/cluster/hosts, a script). Needs root and the packages of scripts/setup.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {

class Hosts {
 public:
  // Nothing, and why, where they cannot be made.
  static std::unique_ptr<Hosts> make(int count, std::string& why_not);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // Of host i, from 0, and of this machine as the hosts see it.
  [[nodiscard]] std::string address(int i) const;
  [[nodiscard]] std::string gateway() const;
  // By which this machine reaches the hosts; theirs is eth0.
  [[nodiscard]] std::string interface() const { return "br-dt" + net_; }
  [[nodiscard]] int count() const { return static_cast<int>(addresses_.size()); }
  // A host file, a line a host.
  [[nodiscard]] std::string host_file() const { return dir_.path("addresses"); }

  // For processes of this machine: their ssh reaches the hosts. `directory` is where they run and keep their record.
  [[nodiscard]] ProcessOptions options(const std::string& directory) const;
  // The command line that runs `command` on host i.
  [[nodiscard]] std::vector<std::string> on(int i, const std::vector<std::string>& command) const;
  // What is run there besides sshd: ids and command lines.
  [[nodiscard]] std::string processes() const;
  // Nothing runs on any host within the time.
  [[nodiscard]] bool all_quiet(double seconds) const;
  // How ssh was called so far, a line a call.
  [[nodiscard]] std::string ssh_calls() const;
  // No frame comes to host i any more, or goes from it.
  void cut_off(int i) const;
  // Host i is behind a link that loses frames and takes its time, each way, as long as the object lives.
  class Link {
   public:
    virtual ~Link() = default;
    [[nodiscard]] virtual uint64_t lost() const = 0;  // frames so far
  };
  [[nodiscard]] std::unique_ptr<Link> slow_link(int i, double loss, int delay_ms, std::string& why_not) const;

 private:
  Hosts() = default;
  TempDir dir_;
  std::string net_;
  std::vector<std::string> addresses_;
};

}  // namespace dtrain::test
