// Runs a job in Kubernetes with kubectl: applies its manifests (kubernetes_files.h), shows what its pods print, and
// deletes its objects at the end.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/screen.h"

namespace dtrain::cluster {

struct KubernetesJob {
  std::string name;  // name of the Job, the Service and the Secret
  std::string manifests;
  int64_t pods = 1;
};

struct KubernetesLimits {
  std::chrono::milliseconds ask{std::chrono::seconds(2)};         // time between two queries for the states of the pods
  std::chrono::milliseconds last_words{std::chrono::seconds(5)};  // time to wait for the pods' last lines
  std::chrono::seconds stop{180};                                 // time for the pods to end after the Job is deleted
};

// Shows why pods wait, all output of the scheduler and worker 0, and the warnings and errors of other processes, as
// "[pod] line". INT, TERM, USR1 and HUP delete the Job, whose processes get time to write a checkpoint; a second INT
// ends the pods immediately. When this returns, the objects are deleted.
//
// Returns the exit code of the first container that failed, or 0. Code::kStartup: kubectl is missing, the cluster
// refuses the manifests, or a pod can never start; the message has kubectl's words. kPeerLost: another user or the
// cluster ended or deleted the Job. kPreempted: this process was told to stop. The calling process must have a single
// thread.
Result<int> run_kubernetes_job(const KubernetesJob& job, const KubernetesLimits& limits, launch::Screen& screen);

// The part of the output of `kubectl get pods -o json` about one pod that is used here.
struct Pod {
  std::string name;
  std::string phase;       // state of the pod: "Pending", "Running", "Succeeded", "Failed"
  std::string waits = {};  // why the pod waits: "ErrImagePull: ...", or why it has no node; empty: it is not waiting
  bool never = false;      // the pod will not start unless something is changed
  std::optional<int> code = {};  // exit code of its container, if that has ended
  std::string finished = {};     // time of the container's end, as a text that can be compared
  std::string reason = {};       // why the pod or its container ended: "OOMKilled", "Evicted"
};
std::vector<Pod> parse_pods(const std::string& json);

struct JobState {
  bool complete = false, failed = false;
  std::string reason = {}, message = {};
};
// Code::kUnavailable: the text is not a Job.
Result<JobState> parse_job_state(const std::string& json);

}  // namespace dtrain::cluster
