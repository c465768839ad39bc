// What is known about a running job, for those who watch it: the latest state of its processes, curves, events and the
// last log lines. Memory is bounded, however long the job runs.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "net/http/http_server.h"
#include "observe/log_tail.h"
#include "observe/open_metrics.h"
#include "observe/source.h"
#include "telemetry/registry.h"

namespace dtrain::observe {

// The facts that do not change.
struct JobIdentity {
  std::string name;          // the name of the run directory
  std::string network = {};  // name of the network, for people: "lenet"
  std::string scheme = {};   // the value of --kv-store: "dist_sync"
  uint32_t workers = 1;      // the number of workers that the job should have
  uint32_t servers = 0;
};

struct ProcessState {
  Source source;
  std::string wait = {};               // the oldest open wait, empty if there is none
  double wait_s = 0;                   // how long that wait has been open
  double heard_s = 0;                  // time since the last message from the process
  bool is_lost = false;                // the process ended without a goodbye
  std::optional<uint64_t> steps = {};  // for a worker: its own steps since the run began
};

struct JobState {
  double seconds = 0;  // time since the job began
  int64_t step = 0, steps = 0;
  int64_t epoch = 0, epochs = 0;  // the current epoch, counted from 1, and their total; 0: not known
  double samples_per_s = 0;
  double eta_s = -1;                         // time left in seconds; negative: not known
  std::vector<ProcessState> processes = {};  // the processes: workers by rank, then servers by rank, then the scheduler
};

// A point in time on the curves. Unknown values are NaN.
struct CurvePoint {
  double seconds = 0;
  int64_t step = 0;
  double loss = 0, accuracy = 0, validation = 0, learning_rate = 0, samples_per_s = 0;
  std::vector<double> by_worker = {};  // samples per second of the first kCurveWorkersMax workers
};
inline constexpr size_t kCurvePointsMax = 600;
// The page shows how the workers spent about the last kRecentSeconds. A phase whose share is below kShareMin is counted
// as "other", so that the drawing and the text agree.
inline constexpr double kRecentSeconds = 15, kShareMin = 0.01;
inline constexpr size_t kCurveWorkersMax = 8;

struct JobEvent {
  double seconds = 0;
  // "start", "join", "loss", "checkpoint", "validation", "rate", "regroup", "slow", "warning", "advice", "stop",
  // "finish", "end"
  std::string kind;
  std::string text;
};

// Thread-safe.
class JobFacts {
 public:
  explicit JobFacts(JobIdentity identity) : identity_(std::move(identity)) {}

  // Called about once a second.
  void update(JobState state);
  // Adds log lines. Lines that report an event (docs/formats.md, "Log lines") become a JobEvent.
  void add_log(const std::vector<LogLine>& lines);
  // Adds log lines that were written before the job began, by the run that it resumes. They are shown, but their events
  // are not new.
  void add_earlier_log(const std::vector<LogLine>& lines);
  // Called when the job is over.
  void end(bool is_success, const std::string& how);

  // The newest metrics of all processes.
  [[nodiscard]] std::vector<Source> sources() const;
  // The addresses at which processes serve their own metrics, in the form that Prometheus's HTTP service discovery
  // reads. Source: https://prometheus.io/docs/prometheus/latest/http_sd/
  [[nodiscard]] std::string targets() const;
  [[nodiscard]] const std::string& name() const { return identity_.name; }

  // A stream of events for one client of the page. It first sends everything that is kept, as the event "history", and
  // then what is new, as events "update". Their data are an object, which page/page.html reads. "state" is the latest
  // state. It includes the metrics that the page shows, the shares of each worker's phases, and how busy each server is
  // (the last two are null if not known). Its member "now" has the latest values of the curves, because "points" may
  // omit the newest point. "points" has the members of CurvePoint in their order, "events" those of JobEvent, "log"
  // those of LogLine. Only a history has "job", the identity. The facts must outlive the stream.
  [[nodiscard]] std::unique_ptr<net::EventStream> follow() const;
  // For tests: the data of the first event.
  [[nodiscard]] std::string history() const;

 private:
  class Follower;
  // What a client has received: for each kind of item, how many had been added.
  struct Seen {
    uint64_t states = 0, points = 0, events = 0, lines = 0;
  };
  // Counters of which the page shows the increase, as they were at one state.
  struct Counters {
    double seconds = 0;
    std::vector<Source> sources;
  };
  [[nodiscard]] std::string text(Seen& seen, bool all) const;
  void keep_counters() DT_REQUIRES(mutex_);
  // The counters of the process about kRecentSeconds ago, and the time since then; {nullptr, 0} if the process is new.
  [[nodiscard]] std::pair<const Source*, double> earlier(const Source& source) const DT_REQUIRES(mutex_);
  void add_point(const JobState& state) DT_REQUIRES(mutex_);
  void add_line(const LogLine& line) DT_REQUIRES(mutex_);
  void add_event(const std::string& kind, const std::string& text) DT_REQUIRES(mutex_);

  const JobIdentity identity_;
  mutable Mutex mutex_;
  JobState state_ DT_GUARDED_BY(mutex_);
  std::deque<Counters> recent_ DT_GUARDED_BY(mutex_);  // states of the last kRecentSeconds, oldest first
  std::deque<CurvePoint> points_ DT_GUARDED_BY(mutex_);
  size_t updates_per_point_ DT_GUARDED_BY(mutex_) = 1;
  std::deque<JobEvent> events_ DT_GUARDED_BY(mutex_);
  std::deque<LogLine> lines_ DT_GUARDED_BY(mutex_);
  Seen added_ DT_GUARDED_BY(mutex_);
  std::string ended_ DT_GUARDED_BY(mutex_);  // how the job ended; empty: the job is running
  bool is_success_ DT_GUARDED_BY(mutex_) = false;
};

// The kind of event that a log line reports ("checkpoint"), and its text without the time, the node and the words that
// the kind repeats. The kind is empty if the line reports no event. Each line that begins with "warning: " reports an
// event.
JobEvent event_of(const std::string& log_line);

}  // namespace dtrain::observe
