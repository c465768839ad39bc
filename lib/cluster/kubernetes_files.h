// The manifests of a job in Kubernetes: a Secret with the job's token, a headless Service through which its pods find
// each other, and an indexed Job.
#pragma once

#include <string>
#include <vector>

#include "cluster/batch_request.h"
#include "cluster/node_script.h"

namespace dtrain::cluster {

struct KubernetesSetting {
  std::string name;   // name of all three objects: a DNS label
  std::string token;  // token of the job
  const job::Flags& flags;
  NodeRequest pod = {};                 // the resources that each pod needs
  std::chrono::seconds stop_time{120};  // time that a pod has to write a checkpoint before it is killed
  std::vector<std::string> arguments;   // the user's arguments, without program name and subcommand
  std::string network;                  // the network's name without a path
  // Variables of all processes, of servers and of workers, each as "NAME=value".
  std::vector<std::string> exports = {}, server_exports = {}, worker_exports = {};
};

// The YAML for `kubectl apply -f -`. Code::kUsage: a flag that Kubernetes needs is missing, or is malformed.
//
// The pods form the job by themselves, without a launcher: pod 0 runs the scheduler, which the others find by the name
// that the Service gives to pod 0, and each pod runs its part of the servers and workers (node_script.h). A launcher
// outside of the cluster could not form the job, because in most clusters pods cannot reach it: the user's host is
// behind a firewall or an address translation, and kubectl only opens connections into the cluster. Without a launcher,
// the printed file is also complete. There is one Job with equal pods rather than one Job for each role, so that
// Kubernetes starts, counts and ends all of them together, and a failure of one pod ends the job.
Result<std::string> kubernetes_manifests(const KubernetesSetting& setting);

// A DNS label that resembles `text`: lower case, digits and '-', at most 50 characters.
std::string dns_label(const std::string& text);

}  // namespace dtrain::cluster
