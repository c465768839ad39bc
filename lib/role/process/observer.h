// Shows a running process or job to its users: the server behind --metrics-addr.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "job/process/progress.h"
#include "net/http/http_server.h"
#include "observe/job_facts.h"
#include "role/process/process.h"

namespace dtrain::role {

// A separate thread queries the state once a second and reads the logs of the run directory. The server's threads
// answer from copies. Training waits for none of these threads.
class Observer {
 public:
  // Called by the observer's thread.
  using State = std::function<observe::JobState()>;
  // Starts a trace of the job when the live page asks for it. Returns a sentence that describes what is traced, or an
  // Error that says why nothing is. Called by any thread.
  using Trace = std::function<Result<std::string>()>;

  // For a process that knows the whole job: serves the metrics and the live page.
  static Result<std::unique_ptr<Observer>> of_job(const Process& process, State state, Trace trace);
  // For a process that knows only itself: serves its own metrics and has no page.
  static Result<std::unique_ptr<Observer>> of_process(const Process& process, State state);
  // of_job and of_process listen and log the address. They return null without --metrics-addr. Code::kStartup: see
  // HttpServer::start; kUsage if the address is malformed; kDenied if the address is beyond loopback and there is no
  // token.

  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // Takes the last state and the outcome of the job, and ends the thread. The server continues until this object is
  // destroyed.
  void end(const Result<>& outcome);

 private:
  enum class Knows { kItself, kWholeJob };
  Observer(const Process& process, Knows knows, State state, Trace trace);
  static Result<std::unique_ptr<Observer>> start(const Process& process, Knows knows, State state, Trace trace);
  Result<> serve(const job::LaunchFlags& flags);
  std::vector<net::HttpRoute> routes();
  void watch();
  void look();
  void stop();

  const Knows knows_;
  const Trace trace_;              // starts a trace; null unless this process knows the whole job
  telemetry::Registry& registry_;  // metrics of the process
  const State state_;
  const Log log_;
  observe::JobFacts facts_;
  observe::LogTail tail_;
  std::unique_ptr<net::HttpServer> server_;
  Mutex mutex_;
  ConditionVariable ended_;
  bool end_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// A job's progress, which one thread sets and another thread shows.
class SharedProgress {
 public:
  explicit SharedProgress(const job::Progress& progress) : progress_(progress) {}
  void set(const job::Progress& progress) {
    const MutexLock lock(mutex_);
    progress_ = progress;
  }
  [[nodiscard]] job::Progress get() const {
    const MutexLock lock(mutex_);
    return progress_;
  }

 private:
  mutable Mutex mutex_;
  job::Progress progress_ DT_GUARDED_BY(mutex_);
};

observe::JobState job_state(const job::Progress& progress, std::chrono::steady_clock::time_point started,
                            std::vector<observe::ProcessState> processes);
// The metrics and waits of this process.
observe::ProcessState own_state(telemetry::Registry& registry, const Waits& waits, const std::string& role,
                                uint32_t rank);

// Makes the same checks of --metrics-addr as Observer::of_job, before anything is started. Does not listen.
Result<> check_observed(const job::LaunchFlags& flags);

// The address to listen on, from the text of --metrics-addr. A bare port means loopback. Code::kUsage names the flag.
Result<net::Endpoint> observed_at(const std::string& text);

}  // namespace dtrain::role
