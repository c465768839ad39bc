#include "parts.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <optional>
#include <thread>

namespace dtrain::gpu {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const char* status_name(Outcome::Status status) {
  switch (status) {
    case Outcome::Status::kPassed: return "passed";
    case Outcome::Status::kFailed: return "failed";
    case Outcome::Status::kMissing: return "missing";
  }
  return "?";
}

Outcome outcome_of(const Part& part) {
  try {
    Result<Outcome> result = part.run();
    if (result) return std::move(*result);
    const bool absent = result.error().code == Code::kNotFound;
    return {absent ? Outcome::Status::kMissing : Outcome::Status::kFailed, result.error().text(), Json::object()};
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}

// Ends the process when a part takes too long. Nothing else can end a call that waits for a device forever.
class Watchdog {
 public:
  Watchdog(Report& report, std::string stage, double part_s, int code)
      : report_(report), stage_(std::move(stage)), part_s_(part_s), code_(code), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void begin(const std::string& part) {
    const std::lock_guard lock(mutex_);
    begun_[part] = Clock::now();
  }
  void end(const std::string& part) {
    const std::lock_guard lock(mutex_);
    begun_.erase(part);
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return over_; })) {
      for (const auto& [part, since] : begun_) {
        if (seconds_since(since) <= part_s_) continue;
        // Counted as begun for the last time, because it would hang again.
        const auto written =
            report_.end(stage_, part, "killed", seconds_since(since),
                        fmt::format("no end after {} s: the process was ended", part_s_), {{"begun", kAttempts}});
        _exit(written ? code_ : 1);
      }
    }
  }

  Report& report_;
  std::string stage_;
  double part_s_;
  int code_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Clock::time_point> begun_;
  bool over_ = false;
  std::thread thread_;
};

class Runner {
 public:
  Runner(Report& report, Machine& machine, const std::string& stage, const std::vector<Part>& parts,
         const PartLimits& limits, int hung)
      : report_(report),
        machine_(machine),
        stage_(stage),
        parts_(parts),
        limits_(limits),
        watchdog_(report, stage, limits.part_s, hung) {}

  Result<StageEnd> run() {
    std::vector<std::thread> threads;
    for (int t = 1; t < limits_.threads; t++) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    if (error_) return tl::unexpected(*error_);
    DT_TRY_VOID(report_.end_stage(stage_, seconds_since(start_), limits_.stage_s, not_done()));
    return lost_ ? StageEnd::kDeviceLost : StageEnd::kDone;
  }

 private:
  void work() {
    for (size_t p = next_++; p < parts_.size() && !lost_ && !stopped_; p = next_++) {
      const Result<> written = run_one(parts_[p]);
      if (!written) remember(written.error());
    }
  }

  void remember(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    stopped_ = true;
  }

  Result<> run_one(const Part& part) {
    const std::string status = report_.status(stage_, part.name);
    const int broken_off = report_.broken_off(stage_, part.name);
    if (!status.empty() && broken_off == 0) return {};
    if (broken_off >= kAttempts && status == "killed") return {};
    if (broken_off >= kAttempts) {
      return report_.end(stage_, part.name, "failed", 0, "began twice and did not end: it took the program with it");
    }
    if (seconds_since(start_) > limits_.stage_s) return {};
    DT_TRY_VOID(report_.begin(stage_, part.name));
    const Clock::time_point begin = Clock::now();
    watchdog_.begin(part.name);
    const Outcome outcome = outcome_of(part);
    watchdog_.end(part.name);
    // The part that broke the device first is to blame. Other parts suffer only from that and are run again.
    if (lost_) return report_.end(stage_, part.name, "", 0, "");
    if (outcome.status == Outcome::Status::kFailed && !machine_.synchronise()) lost_ = true;
    return report_.end(stage_, part.name, status_name(outcome.status), seconds_since(begin), outcome.text,
                       outcome.numbers);
  }

  std::vector<std::string> not_done() const {
    std::vector<std::string> names;
    for (const Part& part : parts_) {
      const int broken_off = report_.broken_off(stage_, part.name);
      const bool begins_again = 0 < broken_off && broken_off < kAttempts;
      if (report_.status(stage_, part.name).empty() || begins_again) names.push_back(part.name);
    }
    return names;
  }

  Report& report_;
  Machine& machine_;
  const std::string& stage_;
  const std::vector<Part>& parts_;
  PartLimits limits_;
  Clock::time_point start_ = Clock::now();
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> lost_ = false, stopped_ = false;
  std::mutex mutex_;
  std::optional<Error> error_;
  Watchdog watchdog_;
};

}  // namespace

Outcome passed(std::string text, Json numbers) {
  return {Outcome::Status::kPassed, std::move(text), std::move(numbers)};
}
Outcome failed(std::string text, Json numbers) {
  return {Outcome::Status::kFailed, std::move(text), std::move(numbers)};
}

Result<StageEnd> run_parts(Report& report, Machine& machine, const std::string& stage, const std::vector<Part>& parts,
                           const PartLimits& limits, int hung) {
  return Runner(report, machine, stage, parts, limits, hung).run();
}

Result<> run_failed_parts(Report& report, const std::string& stage, const std::vector<Part>& parts,
                          const PartLimits& limits, int hung) {
  const Clock::time_point start = Clock::now();
  Watchdog watchdog(report, stage, limits.part_s, hung);
  for (const Part& part : parts) {
    if (report.status(stage, part.name) != "failed" || seconds_since(start) > limits.stage_s) continue;
    watchdog.begin(part.name);
    const Outcome outcome = outcome_of(part);
    watchdog.end(part.name);
    DT_TRY_VOID(report.add(stage, part.name,
                           {{"blocking", {{"status", status_name(outcome.status)}, {"text", outcome.text}}}}));
  }
  return {};
}

}  // namespace dtrain::gpu
