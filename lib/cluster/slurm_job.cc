#include "cluster/slurm_job.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "base/words.h"
#include "cluster/slurm_script.h"
#include "job/flags/value.h"
#include "proc/lines.h"
#include "proc/run.h"

namespace dtrain::cluster {
namespace {

// States in which a job has left Slurm, in the words of scontrol.
constexpr std::array kEndedStates = {"COMPLETED", "FAILED",        "CANCELLED",    "TIMEOUT",
                                     "NODE_FAIL", "BOOT_FAIL",     "DEADLINE",     "PREEMPTED",
                                     "REVOKED",   "OUT_OF_MEMORY", "LAUNCH_FAILED"};
constexpr std::array kWaitingStates = {"PENDING",     "CONFIGURING",  "REQUEUED",
                                       "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"};
// Reasons for which a job waits until a user changes the cluster or the job.
constexpr std::array kNeverReasons = {"PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints",
                                      "InvalidAccount",     "InvalidQOS",         "DependencyNeverSatisfied"};

template <size_t N>
bool contains_word(const std::array<const char*, N>& words, const std::string& word) {
  return std::any_of(words.begin(), words.end(), [&](const char* one) { return word == one; });
}

// The value of KEY=VALUE in a line of scontrol. Only the part from the user's id on is searched, because the job's
// name, which precedes it, may contain anything.
std::string value_in(const std::string& line, std::string_view key) {
  const size_t user = line.find(" UserId=");
  const size_t at = line.find(fmt::format(" {}=", key), user == std::string::npos ? 0 : user);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size() + 2;
  std::string value = line.substr(begin, line.find(' ', begin) - begin);
  return value == "(null)" || value == "Unknown" || value == "N/A" ? "" : value;
}

int number_in(std::string_view text) {
  int64_t number = 0;
  return job::parse_value(text, number) ? static_cast<int>(number) : 0;
}

std::string waiting_text(const SlurmJob& job) {
  std::string text = "waiting in partition " + job.partition;
  if (!job.reason.empty() && job.reason != "None") text += ": " + job.reason;
  if (!job.start.empty()) text += fmt::format(", expected to start at {}", job.start);
  return text;
}

std::string advice_on(const SlurmJob& job, const std::string& asked) {
  if (job.reason.starts_with("JobHeld")) return "the job is on hold: 'scontrol release' releases it";
  if (job.reason == "PartitionConfig" || job.reason == "ReqNodeNotAvail") {
    return fmt::format(
        "partition {} does not have {} at present; --queue, --nodes and the flags for cores, memory and GPUs change "
        "the request; Ctrl-C cancels the job",
        job.partition, asked);
  }
  if (job.reason == "PartitionDown" || job.reason == "PartitionInactive")
    return fmt::format("partition {} starts no jobs at present; --queue chooses another partition", job.partition);
  return "";
}

// Slurm's explanation if a job did not end by itself; nullopt if it did.
std::optional<Error> failure_of(const SlurmJob& job) {
  const bool ran = !job.nodes.empty();
  const Code code = ran ? Code::kPeerLost : Code::kStartup;
  const std::string reason = job.reason.empty() || job.reason == "None" ? "" : fmt::format(" ({})", job.reason);
  const auto error = [&](Code which, const std::string& more) {
    return Error{
        which,
        fmt::format("Slurm ended the job: {}{}, exit code {}:{}{}", job.state, reason, job.code, job.signal, more),
        {}};
  };
  if (job.state == "COMPLETED") return std::nullopt;
  if (job.state == "FAILED" && job.signal == 0 && job.reason != "JobLaunchFailure") return std::nullopt;
  if (job.reason == "JobLaunchFailure") {
    return error(Code::kStartup,
                 fmt::format(": {} could not start the job's script. The run directory must be on a file system that "
                             "all nodes share, because Slurm writes the job's output there",
                             job.nodes));
  }
  if (job.state == "OUT_OF_MEMORY")
    return error(code, ": a node used more memory than the job requested (--worker-memory, --server-memory)");
  if (job.state == "TIMEOUT") return error(code, ": the job reached its time limit (--time-limit)");
  if (job.signal != 0)
    return error(code, fmt::format(": its script was killed by signal {} ({})", job.signal, strsignal(job.signal)));
  return error(code, "");
}

class SlurmBatch : public BatchSystem {
 public:
  SlurmBatch(std::string asked, SlurmFiles files) : asked_(std::move(asked)), files_(std::move(files)) {}

  [[nodiscard]] std::string name() const override { return "Slurm"; }
  [[nodiscard]] std::string missing() const override {
    return "Slurm's commands must be installed here (Debian: slurm-client), or use --launcher ssh";
  }
  [[nodiscard]] Words submit() const override { return {"sbatch", "--parsable", files_.script}; }
  [[nodiscard]] Result<std::string> job_of(const Words& lines) const override;
  [[nodiscard]] Words list() const override {
    return {"squeue", "--me", "--noheader", "--Format=JobID:20,STDOUT:8192"};
  }
  [[nodiscard]] std::optional<std::string> job_in(const Words& lines) const override;
  [[nodiscard]] Words question(const std::string& job) const override {
    return with_cluster({"scontrol", "--oneliner"}, {"show", "job", number_of_job(job)}, job);
  }
  [[nodiscard]] Result<BatchState> state_of(const std::string& job, const proc::Finished& answer) const override;
  [[nodiscard]] Words queue(const std::string& job, const BatchState& now) const override;
  [[nodiscard]] std::string position_in(const Words& lines, const std::string& job) const override;
  [[nodiscard]] Words signal(const std::string& job, int number) const override {
    // TERM is replaced by INT, because with TERM Slurm would log that the job is cancelled.
    const std::string name = number == SIGTERM ? "INT" : number == SIGUSR2 ? "USR2" : std::to_string(number);
    return with_cluster({"scancel"}, {"--batch", "--signal=" + name, number_of_job(job)}, job);
  }
  [[nodiscard]] Words cancel(const std::string& job) const override {
    return with_cluster({"scancel"}, {number_of_job(job)}, job);
  }
  [[nodiscard]] std::string output_file(const std::string& job) const override {
    return fmt::format("{}/slurm-{}.out", files_.run_dir, number_of_job(job));
  }
  [[nodiscard]] std::string code_file(const std::string& job) const override {
    return state_file(files_.run_dir, number_of_job(job));
  }

 private:
  // The number without the cluster: for a job on another cluster, sbatch prints "12;cluster".
  static std::string number_of_job(const std::string& job) { return job.substr(0, job.find(';')); }
  static Words with_cluster(Words command, const Words& rest, const std::string& job) {
    if (const size_t at = job.find(';'); at != std::string::npos) command.push_back("--clusters=" + job.substr(at + 1));
    command.insert(command.end(), rest.begin(), rest.end());
    return command;
  }

  std::string asked_;
  SlurmFiles files_;
};

Result<std::string> SlurmBatch::job_of(const Words& lines) const {
  for (const std::string& line : lines) {
    const std::string number = number_of_job(line);
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string::npos) return line;
  }
  return fail(Code::kStartup, "sbatch printed '{}' instead of a job number", proc::first_words(lines));
}

std::optional<std::string> SlurmBatch::job_in(const Words& lines) const {
  for (const std::string& line : lines) {
    if (line.find(output_pattern(files_.run_dir)) != std::string::npos) return line.substr(0, line.find(' '));
  }
  return std::nullopt;
}

Result<BatchState> SlurmBatch::state_of(const std::string& job, const proc::Finished& answer) const {
  const std::string words = proc::first_words(answer.errors);
  if (words.find("Invalid job id") != std::string::npos) return fail(Code::kNotFound, "{}", words);
  if (!answer.ended_with(0)) return fail(Code::kUnavailable, "{}", proc::failure_of(question(job), answer));
  DT_TRY(const SlurmJob state, parse_slurm_job(answer.output.empty() ? "" : answer.output.front()));
  return cluster::state_of(state, asked_);
}

BatchSystem::Words SlurmBatch::queue(const std::string& job, const BatchState& now) const {
  if (now.queue.empty()) return {};
  return with_cluster(
      {"squeue"}, {"--noheader", "--states=PENDING", "--partition=" + now.queue, "--sort=-p,i", "--format=%i"}, job);
}

std::string SlurmBatch::position_in(const Words& lines, const std::string& job) const {
  const auto found = std::find(lines.begin(), lines.end(), number_of_job(job));
  return found == lines.end() ? "" : fmt::format("position {} of {}", found - lines.begin() + 1, lines.size());
}

}  // namespace

Result<SlurmJob> parse_slurm_job(const std::string& line) {
  SlurmJob job;
  job.state = value_in(line, "JobState");
  if (job.state.empty())
    return fail(Code::kNotFound, "scontrol printed '{}' instead of the description of a job", line);
  job.reason = value_in(line, "Reason");
  job.partition = value_in(line, "Partition");
  job.nodes = value_in(line, "NodeList");
  job.start = value_in(line, "StartTime");
  job.restarts = number_in(value_in(line, "Restarts"));
  const std::string code = value_in(line, "ExitCode");
  const size_t colon = code.find(':');
  job.code = number_in(code.substr(0, colon));
  if (colon != std::string::npos) job.signal = number_in(code.substr(colon + 1));
  return job;
}

BatchState state_of(const SlurmJob& job, const std::string& asked) {
  BatchState state{.queue = job.partition, .restarts = job.restarts, .failure = {}};
  if (contains_word(kEndedStates, job.state)) {
    state.phase = BatchState::Phase::kEnded;
    state.code = job.code;
    state.failure = failure_of(job);
  } else if (contains_word(kWaitingStates, job.state)) {
    state.phase = BatchState::Phase::kWaiting;
    state.text = waiting_text(job);
    state.advice = advice_on(job, asked);
    if (contains_word(kNeverReasons, job.reason)) {
      state.never = fmt::format(
          "Slurm will not start the job in partition {}: {}. The job requests {}; --queue, --nodes, --time-limit and "
          "--submit-option change the request",
          job.partition, job.reason, asked);
    }
  } else if (job.state == "COMPLETING") {
    state.phase = BatchState::Phase::kEnding;
  } else {
    state.phase = BatchState::Phase::kRunning;
    state.text = "runs on " + job.nodes;
  }
  return state;
}

std::string asked_of(const BatchRequest& request) {
  std::string text = fmt::format("{} node{}", request.nodes, request.nodes == 1 ? "" : "s");
  std::vector<std::string> each;
  if (request.node.cores > 0) each.push_back(fmt::format("{} cores", request.node.cores));
  if (request.node.memory > 0) each.push_back(fmt::format("{} MiB of memory", request.node.memory >> 20));
  if (request.node.gpus > 0) each.push_back(fmt::format("{} GPUs", request.node.gpus));
  if (!each.empty()) text += fmt::format(" with {}{}", fmt::join(each, ", "), request.nodes == 1 ? "" : " each");
  if (request.time_limit.count() > 0) {
    text += fmt::format(" for {} min", std::chrono::ceil<std::chrono::minutes>(request.time_limit).count());
  }
  return text;
}

std::string output_pattern(const std::string& run_dir) {
  std::string pattern;
  for (const char c : run_dir) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  return pattern + "/slurm-%j.out";
}

std::unique_ptr<BatchSystem> slurm_batch(const BatchRequest& request, const SlurmFiles& files) {
  return std::make_unique<SlurmBatch>(asked_of(request), files);
}

}  // namespace dtrain::cluster
