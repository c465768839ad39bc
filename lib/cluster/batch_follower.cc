#include "cluster/batch_follower.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/file.h"
#include "base/poll_until.h"
#include "job/flags/value.h"
#include "job/process/exit_code.h"
#include "job/process/progress.h"
#include "proc/file_tail.h"
#include "proc/run.h"
#include "proc/signal_queue.h"

namespace dtrain::cluster {
namespace {

using Phase = BatchState::Phase;

// The purpose for which a command of the batch system is run.
enum class Errand { kSubmit, kFind, kAsk, kPlace, kStop, kCancel, kPassOn };

class Follower {
 public:
  Follower(const BatchSystem& system, const FollowLimits& limits, launch::Screen& screen, proc::SignalQueue& signals)
      : system_(system), limits_(limits), screen_(screen), signals_(signals), asks_after_(limits.ask_first) {}

  Result<int> run();

 private:
  void begin(Errand errand, const BatchSystem::Words& command);
  void begin_next();
  void wait_for_events();
  void take_tool();

  void on_signal(int signal);
  void stop(const char* signal);
  void on_submitted(const proc::Finished& finished);
  void on_not_submitted(Error error, bool unknown);
  void on_found(const proc::Finished& finished);
  void on_answer(const proc::Finished& finished);
  void on_state(const BatchState& state);
  void on_waiting(const BatchState& state);
  void advise(const std::string& advice);
  void on_phase(const BatchState& state);
  void on_no_answer(const std::string& words);
  void on_told(Errand errand, const proc::Finished& finished);

  void look();
  void show(const std::string& line);
  void read_to_the_end();
  [[nodiscard]] std::optional<int> code_in_file() const;
  void end(const BatchState& state);
  void end_unknown();

  void say(const std::string& text) { screen_.line("dtrain: " + text); }
  void ask_soon() { ask_at_ = proc::Clock::now(); }
  [[nodiscard]] std::string job_text() const { return fmt::format("{1} job {0}", job_, system_.name()); }

  const BatchSystem& system_;
  const FollowLimits& limits_;
  launch::Screen& screen_;
  proc::SignalQueue& signals_;

  std::optional<proc::Run> tool_;
  Errand errand_ = Errand::kSubmit;
  BatchSystem::Words command_;  // the command that is running in tool_

  std::string job_;                  // the job's number; empty: not submitted yet
  std::optional<BatchState> state_;  // the state of the job in the system's last answer
  bool no_answer_ = false;           // whether the last query got no answer, and the user has been told so
  std::string place_, advice_, live_;
  std::optional<proc::FileTail> output_;
  int64_t size_at_wait_ = 0;  // the size that the job's output file had while the job was waiting
  bool output_seen_ = false, output_missed_ = false, code_seen_ = false;

  int stops_ = 0;  // number of signals from the user to stop
  bool wants_stop_ = false, wants_cancel_ = false, wants_pass_on_ = false;
  bool cancelled_ = false;
  std::optional<Error> error_;  // why this process cancels the job, if the user did not ask for it

  FollowLimits::Duration asks_after_;
  proc::Clock::time_point ask_at_ = proc::Clock::now(), look_at_ = proc::Clock::now(), place_at_ = proc::Clock::now();
  std::optional<proc::Clock::time_point> running_since_, never_since_, advised_at_;
  std::optional<Result<int>> result_;
};

Result<int> Follower::run() {
  begin(Errand::kSubmit, system_.submit());
  while (!result_) {
    wait_for_events();
    for (const int signal : signals_.take()) on_signal(signal);
    if (tool_) take_tool();
    if (output_ && proc::Clock::now() >= look_at_) look();
    if (!tool_ && !result_) begin_next();
  }
  return *std::move(result_);
}

void Follower::begin(Errand errand, const BatchSystem::Words& command) {
  errand_ = errand;
  command_ = command;
  Result<proc::Run> tool =
      proc::Run::start({.arguments = command}, errand == Errand::kSubmit ? limits_.submit : limits_.tool);
  if (tool) {
    tool_.emplace(*std::move(tool));
  } else if (errand == Errand::kSubmit) {
    result_ = fail(Code::kStartup, "{}; {}", tool.error().message, system_.missing());
  } else {
    on_no_answer(tool.error().message);
  }
}

void Follower::begin_next() {
  const auto now = proc::Clock::now();
  if (wants_cancel_) return begin(Errand::kCancel, system_.cancel(job_));
  if (wants_stop_) return begin(Errand::kStop, system_.signal(job_, SIGTERM));
  if (wants_pass_on_) return begin(Errand::kPassOn, system_.signal(job_, SIGUSR2));
  if (now >= ask_at_) return begin(Errand::kAsk, system_.question(job_));
  if (now < place_at_ || !state_ || state_->phase != Phase::kWaiting) return;
  place_at_ = now + limits_.place;
  if (const BatchSystem::Words queue = system_.queue(job_, *state_); !queue.empty()) begin(Errand::kPlace, queue);
}

void Follower::wait_for_events() {
  std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  screen_.watch(watched);
  std::optional<proc::Clock::time_point> wake;
  const auto by = [&](std::optional<proc::Clock::time_point> time) {
    if (time && (!wake || *time < *wake)) wake = time;
  };
  if (tool_) {
    tool_->watch(watched);
    by(tool_->wakes_at());
  } else {
    by(ask_at_);
  }
  if (output_) by(look_at_);
  poll_until(watched, wake);
  screen_.flush();
}

void Follower::take_tool() {
  const std::optional<proc::Finished> finished = tool_->take();
  if (!finished) return;
  tool_.reset();
  switch (errand_) {
    case Errand::kSubmit: return on_submitted(*finished);
    case Errand::kFind: return on_found(*finished);
    case Errand::kAsk: return on_answer(*finished);
    case Errand::kPlace: place_ = system_.position_in(finished->output, job_); return ask_soon();
    default: return on_told(errand_, *finished);
  }
}

void Follower::on_signal(int signal) {
  if (signal == SIGCHLD) return;
  if (signal == SIGUSR2) {
    wants_pass_on_ = state_ && state_->phase == Phase::kRunning;
    return;
  }
  if (stops_ > 0 && signal != SIGINT) return;
  stop(strsignal(signal));
}

void Follower::stop(const char* signal) {
  stops_++;
  if (job_.empty())
    return say(
        fmt::format("received signal {}; the job is stopped as soon as {} has answered", signal, system_.name()));
  if (stops_ > 2) {
    result_ = fail(Code::kPreempted, "dtrain no longer waits for the end of {}, which continues; '{}' cancels it",
                   job_text(), proc::shell_line(system_.cancel(job_)));
    return;
  }
  const bool runs = state_ && state_->phase == Phase::kRunning;
  if (stops_ == 1 && runs) {
    say(
        fmt::format("stopping {} ({}): each process ends its step, and a checkpoint is written; a second Ctrl-C "
                    "cancels the job at once",
                    job_text(), signal));
    wants_stop_ = true;
  } else {
    say(fmt::format("cancelling {} ({})", job_text(), signal));
    wants_cancel_ = true;
  }
}

void Follower::on_submitted(const proc::Finished& finished) {
  const Result<std::string> job = finished.ended_with(0)
                                      ? system_.job_of(finished.output)
                                      : fail(Code::kStartup, "{}", proc::failure_of(command_, finished));
  if (!job) {
    const std::string& words = job.error().message;
    return on_not_submitted(job.error(), finished.over.has_value() || words.find("timed out") != std::string::npos);
  }
  job_ = *job;
  place_at_ = proc::Clock::now() + limits_.first_place;
  output_.emplace(system_.output_file(job_));
  say(fmt::format("{} was submitted; its output is in {}", job_text(), output_->path()));
  if (stops_ > 0) wants_cancel_ = true;
}

// Handles a failed submission. `unknown`: the command did not end in time, so the job may have been queued
// nevertheless.
void Follower::on_not_submitted(Error error, bool unknown) {
  error_ = std::move(error).with(fmt::format("submitting the job to {}", system_.name()));
  if (unknown && !system_.list().empty()) return begin(Errand::kFind, system_.list());
  result_ = tl::unexpected(*error_);
}

void Follower::on_found(const proc::Finished& finished) {
  if (!finished.ended_with(0)) {
    error_->message += fmt::format("; it is unknown whether the job was queued ('{}' lists your jobs)",
                                   proc::shell_line(system_.list()));
    result_ = tl::unexpected(*error_);
  } else if (const std::optional<std::string> job = system_.job_in(finished.output)) {
    job_ = *job;
    error_->message += fmt::format("; {} had accepted the job nevertheless, so the job was cancelled", system_.name());
    wants_cancel_ = true;
  } else {
    result_ = tl::unexpected(*error_);
  }
}

void Follower::on_answer(const proc::Finished& finished) {
  ask_at_ = proc::Clock::now() + asks_after_;
  asks_after_ = std::min(asks_after_ * 3 / 2, limits_.ask_last);
  const Result<BatchState> state = system_.state_of(job_, finished);
  if (state) {
    if (no_answer_) say(system_.name() + " answers again");
    no_answer_ = false;
    on_state(*state);
  } else if (state.error().code == Code::kNotFound) {
    end_unknown();
  } else {
    on_no_answer(state.error().message);
  }
}

void Follower::on_no_answer(const std::string& words) {
  ask_at_ = proc::Clock::now() + limits_.ask_last;
  if (no_answer_) return;
  no_answer_ = true;
  say(fmt::format("{} does not answer; dtrain asks it again every {} s: {}", system_.name(),
                  std::chrono::ceil<std::chrono::seconds>(limits_.ask_last).count(), words));
}

void Follower::on_state(const BatchState& state) {
  if (state.phase == Phase::kEnding) return;
  if (!state_ || state_->phase != state.phase || state_->restarts != state.restarts) on_phase(state);
  state_ = state;
  if (state.phase == Phase::kEnded) return end(state);
  if (state.phase == Phase::kWaiting) on_waiting(state);
}

void Follower::on_phase(const BatchState& state) {
  if (running_since_) look();
  asks_after_ = limits_.ask_first;
  if (!live_.empty()) screen_.live("");
  live_.clear();
  if (state.restarts > (state_ ? state_->restarts : 0)) {
    say(fmt::format("{} has put {} back into the queue ({})", system_.name(), job_text(),
                    state.restarts == 1 ? "for the first time" : fmt::format("{} times so far", state.restarts)));
    code_seen_ = false;
  }
  running_since_.reset();
  if (state.phase != Phase::kRunning) return;
  running_since_ = proc::Clock::now();
  say(fmt::format("{} {}", job_text(), state.text));
}

void Follower::on_waiting(const BatchState& state) {
  // Either the job was put back into the queue while it was being stopped, or its cancellation was lost.
  if (stops_ > 0 && !cancelled_) wants_cancel_ = true;
  advise(state.advice);
  const std::string live = fmt::format("{} is {}{}{}", job_text(), state.text, place_.empty() ? "" : ", ", place_);
  if (live != live_) screen_.live(live);
  live_ = live;
  if (state.never.empty()) return never_since_.reset();
  if (!never_since_) never_since_ = proc::Clock::now();
  if (error_ || proc::Clock::now() - *never_since_ < limits_.hopeless) return;
  error_ = Error{Code::kStartup, state.never, {}};
  wants_cancel_ = true;
}

// Shows the advice, but only after a while, because some reasons last only until the system has examined the job.
void Follower::advise(const std::string& advice) {
  const auto now = proc::Clock::now();
  if (advice != advice_) advised_at_ = advice.empty() ? std::nullopt : std::optional(now + limits_.hopeless);
  advice_ = advice;
  if (!advised_at_ || now < *advised_at_) return;
  say(advice);
  advised_at_.reset();
}

void Follower::on_told(Errand errand, const proc::Finished& finished) {
  if (errand == Errand::kStop) wants_stop_ = false;
  if (errand == Errand::kPassOn) wants_pass_on_ = false;
  if (errand == Errand::kCancel) wants_cancel_ = false;
  const bool done = finished.ended_with(0);
  if (errand == Errand::kCancel) cancelled_ = done;
  if (!done) say(proc::failure_of(command_, finished));
  asks_after_ = limits_.ask_first;
  // A failed cancellation is tried again after the next answer.
  if (done) {
    ask_soon();
  } else if (errand == Errand::kCancel) {
    ask_at_ = proc::Clock::now() + limits_.ask_last;
  }
}

void Follower::look() {
  const auto now = proc::Clock::now();
  look_at_ = now + limits_.look;
  if (!running_since_) {
    // If the output has grown, the job has started.
    if (output_->size() > size_at_wait_) ask_soon();
    size_at_wait_ = std::max(size_at_wait_, output_->size());
    return;
  }
  const proc::FileTail::Found found = output_->read([this](const std::string& line) { show(line); });
  if (found == proc::FileTail::Found::kMore) look_at_ = now;
  output_seen_ = output_seen_ || found != proc::FileTail::Found::kNoFile;
  if (!output_seen_ && !output_missed_ && now - *running_since_ > limits_.output) {
    output_missed_ = true;
    say(
        fmt::format("the job is running, but its output {} does not exist on this host: is the run directory on a file "
                    "system that this host shares with the nodes? dtrain continues to watch the state of the job",
                    output_->path()));
  }
  if (code_seen_ || !code_in_file()) return;
  code_seen_ = true;
  ask_soon();
}

// Shows a line of the job's output. The launcher in the job writes its live line as plain text, because its output is a
// file.
void Follower::show(const std::string& line) {
  if (job::is_formatted_progress(line)) {
    screen_.live(line);
  } else {
    screen_.line(line);
  }
}

void Follower::read_to_the_end() {
  if (!live_.empty()) screen_.live("");  // removes the reason why the job was waiting
  screen_.finish();
  if (!output_) return;
  const auto sink = [this](const std::string& line) { screen_.line(line); };
  while (output_->read(sink) == proc::FileTail::Found::kMore) screen_.flush();
  output_->finish(sink);
}

std::optional<int> Follower::code_in_file() const {
  const Result<std::string> text = read_file(system_.code_file(job_));
  int64_t code = 0;
  if (!text || !job::parse_value(text->substr(0, text->find('\n')), code)) return std::nullopt;
  return static_cast<int>(code);
}

void Follower::end(const BatchState& state) {
  read_to_the_end();
  // The system may have cancelled a job that ended with a checkpoint, or a job that it had not started again yet.
  const bool waited = state.failure && state.failure->code == Code::kStartup;
  if (error_) {
    result_ = tl::unexpected(*error_);
  } else if (!state.failure) {
    result_ = state.code;
  } else if (code_in_file() == job::kExitPreempted || (waited && state.restarts > 0)) {
    say(state.failure->message);
    result_ = job::kExitPreempted;
  } else if (cancelled_ && waited) {
    result_ = fail(Code::kPreempted, "stopped before the job started; {} was cancelled", job_text());
  } else {
    result_ = tl::unexpected(Error(*state.failure).with(fmt::format("following {}", job_text())));
  }
}

// Ends if the system no longer knows the job. Slurm, for example, forgets a job some minutes after its end.
void Follower::end_unknown() {
  const std::optional<int> code = code_in_file();
  if (error_ || !code) {
    read_to_the_end();
    result_ = error_ ? tl::unexpected(*error_)
                     : fail(cancelled_ && !state_ ? Code::kPreempted : Code::kPeerLost,
                            "{} no longer knows job {}, so it is unknown how the job ended", system_.name(), job_);
    return;
  }
  BatchState state{.phase = Phase::kEnded, .code = *code, .failure = {}};
  end(state);
}

}  // namespace

Result<int> run_batch_job(const BatchSystem& system, const FollowLimits& limits, launch::Screen& screen) {
  proc::SignalQueue signals;
  return Follower(system, limits, screen, signals).run();
}

}  // namespace dtrain::cluster
