// Runs a job in Kubernetes by kubectl: applies its manifests (kubernetes_files.h), shows what its pods print, and
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
  std::string name;  // of the Job, the Service and the Secret
  std::string manifests;
  int64_t pods = 1;
};

struct KubernetesLimits {
  std::chrono::milliseconds ask{std::chrono::seconds(2)};         // between questions
  std::chrono::milliseconds last_words{std::chrono::seconds(5)};  // for the pods' last lines
  std::chrono::seconds stop{180};                                 // for the pods to end after the Job was deleted
};

// Shows why pods wait, and what the scheduler and worker 0 print, and of the others warnings and errors, as "[pod]
// line". INT, TERM, USR1 and HUP delete the Job, whose processes get time to write a checkpoint; a second INT ends the
// pods at once. When this returns, the objects are deleted.
//
// Returns the exit code of the first container that failed, or 0. Code::kStartup: kubectl is missing, the cluster
// refuses the manifests, or a pod can never start, in kubectl's words; kPeerLost: the Job was ended or deleted by
// somebody else; kPreempted: this process was told to stop. The calling process must have a single thread.
Result<int> run_kubernetes_job(const KubernetesJob& job, const KubernetesLimits& limits, launch::Screen& screen);

// What `kubectl get pods -o json` says about a pod, as far as it is used.
struct Pod {
  std::string name;
  std::string phase;             // "Pending", "Running", "Succeeded", "Failed"
  std::string waits = {};        // "ErrImagePull: ...", or why it has no node; empty: it does not wait
  bool never = false;            // it will not start as it is
  std::optional<int> code = {};  // of its container, if that has ended
  std::string finished = {};     // when: a text that can be compared
  std::string reason = {};       // "OOMKilled", "Evicted"
};
std::vector<Pod> parse_pods(const std::string& json);

struct JobState {
  bool complete = false, failed = false;
  std::string reason = {}, message = {};
};
// Code::kUnavailable: the text is not a Job.
Result<JobState> parse_job_state(const std::string& json);

}  // namespace dtrain::cluster
