// Submits a job to a batch system and follows it until it has left the system: shows why it waits, then its output.
// Returns its exit code.
#pragma once

#include <chrono>

#include "base/error.h"
#include "cluster/batch_system.h"
#include "launch/screen.h"

namespace dtrain::cluster {

struct FollowLimits {
  using Duration = std::chrono::milliseconds;
  Duration submit = std::chrono::seconds(60);
  Duration tool = std::chrono::seconds(60);        // time limit for all other commands of the system
  Duration ask_first = std::chrono::seconds(1);    // initial time between queries, which grows while the job runs
  Duration ask_last = std::chrono::seconds(10);    // longest time between queries
  Duration look = std::chrono::milliseconds(500);  // time between two checks whether the job's output has grown
  Duration output = std::chrono::seconds(30);      // time after which the output of a running job should be visible
  Duration first_place = std::chrono::seconds(5);
  Duration place = std::chrono::seconds(60);  // time between two queries for the job's position in the queue
  // How long a reason that may prevent the job from ever starting must last before it is taken seriously.
  Duration hopeless = std::chrono::seconds(5);
};

// INT, TERM, USR1 and HUP cancel a job that is waiting. A job that is running is asked to end with a checkpoint; a
// second INT cancels it. In both cases the job has left the system when this function returns; a third INT makes the
// function return immediately. USR2 is passed on to the job.
//
// Returns the job's exit code. Code::kStartup: the job could not be submitted, or ended before it ran; kPeerLost: the
// system ended it while it ran; kPreempted: this process was told to stop. The calling process must have a single
// thread.
Result<int> run_batch_job(const BatchSystem& system, const FollowLimits& limits, launch::Screen& screen);

}  // namespace dtrain::cluster
