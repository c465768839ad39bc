#include "cluster/kubernetes.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "base/json.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "cluster/ask.h"
#include "job/process/exit_code.h"
#include "job/process/progress.h"
#include "job/process/scheduler_lines.h"
#include "proc/children.h"
#include "proc/signal_queue.h"

namespace dtrain::cluster {
namespace {

using Words = std::vector<std::string>;
using Json = nlohmann::json;

constexpr auto kLookAgain = std::chrono::milliseconds(500);
constexpr const char* kKubectlMissing =
    "install kubectl, or print the manifests with --launcher print=kubernetes and apply them elsewhere";
// Reasons for which a container waits until a user changes something.
constexpr std::array kNeverStarts = {"ImagePullBackOff",  "ErrImageNeverPull",          "InvalidImageName",
                                     "RunContainerError", "CreateContainerConfigError", "CreateContainerError"};

std::string string_at(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

// The member of an object; null if there is none.
Json member(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) ? json[key] : Json();
}

std::string with_message(const Json& json) {
  const std::string reason = string_at(json, "reason"), message = string_at(json, "message");
  return message.empty() ? reason : reason + ": " + message;
}

void take_container(const Json& status, Pod& pod) {
  const Json state = member(status, "state");
  const Json waiting = member(state, "waiting"), ended = member(state, "terminated");
  if (waiting.is_object()) {
    pod.waits = with_message(waiting);
    pod.never = std::find(kNeverStarts.begin(), kNeverStarts.end(), string_at(waiting, "reason")) != kNeverStarts.end();
  }
  const Json code = member(ended, "exitCode");
  if (!code.is_number_integer()) return;
  pod.code = code.get<int>();
  pod.finished = string_at(ended, "finishedAt");
  pod.reason = string_at(ended, "reason");
}

Pod pod_of(const Json& item) {
  const Json status = member(item, "status");
  Pod pod{.name = string_at(member(item, "metadata"), "name"), .phase = string_at(status, "phase")};
  pod.reason = string_at(status, "reason");
  for (const Json& condition : member(status, "conditions")) {
    if (string_at(condition, "type") == "PodScheduled" && string_at(condition, "status") == "False")
      pod.waits = with_message(condition);
  }
  for (const Json& container : member(status, "containerStatuses")) take_container(container, pod);
  return pod;
}

bool is_not_found(const Error& error) {
  return error.message.find("NotFound") != std::string::npos;
}

// Follows one job. The output of `kubectl logs` arrives as the output of child processes.
class PodFollower {
 public:
  PodFollower(const KubernetesJob& job, const KubernetesLimits& limits, launch::Screen& screen,
              proc::Children& children)
      : job_(job), limits_(limits), screen_(screen), children_(children) {}

  Result<int> run();

 private:
  Result<> apply();
  Result<std::optional<int>> look();
  Result<std::optional<int>> on_failed(const JobState& state, const std::vector<Pod>& pods);
  Result<> check_never(const std::vector<Pod>& pods);
  void show_state(const std::vector<Pod>& pods);
  Result<> follow_logs(const std::vector<Pod>& pods);
  [[nodiscard]] bool shows(const std::string& line) const;
  void take_lines();
  // Passes lines on until the time is up. Returns true if a signal to stop has arrived.
  bool stopped_within(std::chrono::milliseconds time);
  Result<> remove();
  [[nodiscard]] Words kubectl(const Words& words) const;
  [[nodiscard]] Result<std::string> get(const Words& words) const;

  const KubernetesJob& job_;
  const KubernetesLimits& limits_;
  launch::Screen& screen_;
  proc::Children& children_;
  proc::SignalQueue signals_;
  std::set<std::string> followed_;  // the pods whose logs are followed
  std::vector<std::string> names_;  // names of the pods, indexed by process
  std::string said_;
};

Words PodFollower::kubectl(const Words& words) const {
  Words all = {"kubectl"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Result<std::string> PodFollower::get(const Words& words) const {
  DT_TRY(const Words lines, ask({.program = {.arguments = kubectl(words)}, .missing = kKubectlMissing}));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Result<> PodFollower::apply() {
  DT_TRY(const Words lines, ask({.program = {.arguments = kubectl({"apply", "-f", "-"}), .input = job_.manifests},
                                 .missing = kKubectlMissing,
                                 .limit = std::chrono::seconds(60),
                                 .is_order = true}));
  for (const std::string& line : lines) screen_.line("[kubectl] " + line);
  return {};
}

bool PodFollower::stopped_within(std::chrono::milliseconds time) {
  const auto until = proc::Clock::now() + time;
  while (true) {
    for (const int signal : signals_.take()) {
      if (signal != SIGCHLD && signal != SIGUSR2) return true;
    }
    take_lines();
    if (proc::Clock::now() >= until) return false;
    std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    screen_.watch(watched);
    children_.watch(watched);
    poll_until(watched, until);
    screen_.flush();
  }
}

void PodFollower::take_lines() {
  std::vector<proc::Event> events;
  children_.take(events);
  for (const proc::Event& event : events) {
    const proc::OutputLine* line = std::get_if<proc::OutputLine>(&event);
    if (line == nullptr) continue;
    if (const std::optional<job::Progress> progress = job::parse_progress(line->text)) {
      screen_.live(job::live_progress(*progress));
    } else if (shows(line->text)) {
      screen_.line(fmt::format("[{}] {}", names_.at(line->process), line->text));
    }
  }
}

bool PodFollower::shows(const std::string& line) const {
  // Lines that are meant for a launcher are not shown.
  if (line.starts_with(job::kAddressLine) || line.starts_with(job::kFindingLine)) return false;
  const std::string_view node = node_of_ordinary_line(line);
  return node.empty() || node == "0" || node == "scheduler";
}

Result<> PodFollower::follow_logs(const std::vector<Pod>& pods) {
  for (const Pod& pod : pods) {
    if (pod.phase == "Pending" || !followed_.insert(pod.name).second) continue;
    names_.push_back(pod.name);
    DT_TRY_VOID(children_.start(names_.size() - 1, {.arguments = kubectl({"logs", "--follow", "pod/" + pod.name})}));
  }
  return {};
}

void PodFollower::show_state(const std::vector<Pod>& pods) {
  const auto running = std::count_if(pods.begin(), pods.end(), [](const Pod& pod) { return pod.phase != "Pending"; });
  if (running >= job_.pods) return;
  std::string text = fmt::format("{} of {} pods are running", running, job_.pods);
  for (const Pod& pod : pods) {
    if (pod.waits.empty()) continue;
    text += fmt::format("; {} waits: {}", pod.name, pod.waits);
    break;
  }
  if (text != said_) screen_.line("dtrain: " + text);
  said_ = text;
}

Result<> PodFollower::check_never(const std::vector<Pod>& pods) {
  for (const Pod& pod : pods) {
    if (pod.never) return fail(Code::kStartup, "pod {} cannot start: {}", pod.name, pod.waits);
  }
  return {};
}

// Looks at the job once. Nullopt: it is still running.
Result<std::optional<int>> PodFollower::look() {
  const Result<std::string> job = get({"get", "job", job_.name, "--output=json"});
  if (!job && is_not_found(job.error()))
    return fail(Code::kPeerLost, "Job {} no longer exists: somebody else has deleted it", job_.name);
  const Result<std::string> pods_text =
      job ? get({"get", "pods", "--selector=app.kubernetes.io/instance=" + job_.name, "--output=json"}) : job;
  if (!pods_text) {
    if (pods_text.error().code == Code::kPreempted) return tl::unexpected(pods_text.error());
    // Tries again later: the pods run independently of kubectl, and the cluster may answer then.
    if (said_ != pods_text.error().message) screen_.line("dtrain: " + pods_text.error().message);
    said_ = pods_text.error().message;
    return std::nullopt;
  }
  DT_TRY(const JobState state, parse_job_state(*job));
  const std::vector<Pod> pods = parse_pods(*pods_text);
  DT_TRY_VOID(follow_logs(pods));
  if (state.complete) return job::kExitOk;
  if (state.failed) return on_failed(state, pods);
  DT_TRY_VOID(check_never(pods));
  show_state(pods);
  return std::nullopt;
}

Result<std::optional<int>> PodFollower::on_failed(const JobState& state, const std::vector<Pod>& pods) {
  const Pod* first = nullptr;
  for (const Pod& pod : pods) {
    if (!pod.code || *pod.code == 0) continue;
    if (first == nullptr || pod.finished < first->finished) first = &pod;
  }
  if (first == nullptr) {
    return fail(Code::kPeerLost, "Kubernetes has ended Job {}: {}{}{}", job_.name, state.reason,
                state.message.empty() ? "" : ": ", state.message);
  }
  screen_.line(fmt::format("dtrain: pod {} failed first, with code {}{}", first->name, *first->code,
                           first->reason.empty() ? "" : " (" + first->reason + ")"));
  // A code above 128 is not one of dtrain's: the container was killed.
  return *first->code > 128 ? job::kExitPeerLost : *first->code;
}

// Deletes the job's objects. While they stop, the pods continue printing.
Result<> PodFollower::remove() {
  const auto order = [&](const Words& what) {
    return ask({.program = {.arguments = kubectl(what)}, .missing = kKubectlMissing, .is_order = true});
  };
  const Words words = {"delete", "job/" + job_.name, "--ignore-not-found", "--cascade=foreground", "--wait=false"};
  Result<Words> done = order(words);
  const auto until = proc::Clock::now() + limits_.stop;
  bool at_once = false;
  while (done && proc::Clock::now() < until) {
    const Result<Words> still = order({"get", "job/" + job_.name, "--output=name"});
    if (!still && is_not_found(still.error())) break;
    if (!stopped_within(kLookAgain) || at_once) continue;
    at_once = true;
    screen_.line("dtrain: second interrupt, killing the job");
    const std::string pods = "--selector=app.kubernetes.io/instance=" + job_.name;
    done = order({"delete", "pods", pods, "--grace-period=1", "--wait=false"});
  }
  const Result<Words> rest = order({"delete", "service/" + job_.name, "secret/" + job_.name, "--ignore-not-found"});
  for (const Result<Words>* one : {&std::as_const(done), &rest}) {
    if (*one) continue;
    return fail(Code::kUnavailable, "objects named {} may be left in Kubernetes: {}", job_.name, one->error().message);
  }
  return {};
}

Result<int> PodFollower::run() {
  DT_TRY_VOID(apply(), "applying the manifests of Job {}", job_.name);
  Result<std::optional<int>> end = std::optional<int>();
  bool stopped = false;
  while (end && !*end && !stopped) {
    end = look();
    stopped = end && !*end && stopped_within(limits_.ask);
  }
  if (!end && end.error().code == Code::kPreempted) stopped = true;
  if (stopped) {
    screen_.line("dtrain: deleting the Job: each process ends its step, and a checkpoint is written");
  } else {
    const auto until = proc::Clock::now() + limits_.last_words;
    while (children_.running() && proc::Clock::now() < until && !stopped_within(std::chrono::milliseconds(100))) {
    }
  }
  const Result<> removed = remove();
  take_lines();
  if (!removed) screen_.line(removed.error().text());
  if (stopped) return fail(Code::kPreempted, "stopped; Job {} is deleted", job_.name);
  if (!end) return tl::unexpected(std::move(end.error()));
  return **end;
}

}  // namespace

std::vector<Pod> parse_pods(const std::string& json) {
  std::vector<Pod> pods;
  for (const Json& item : member(parse_json(json), "items")) pods.push_back(pod_of(item));
  return pods;
}

Result<JobState> parse_job_state(const std::string& text) {
  const Json json = parse_json(text);
  if (string_at(json, "kind") != "Job")
    return fail(Code::kUnavailable, "kubectl printed '{}' instead of the description of a Job", text.substr(0, 200));
  JobState state;
  for (const Json& condition : member(member(json, "status"), "conditions")) {
    if (string_at(condition, "status") != "True") continue;
    const std::string type = string_at(condition, "type");
    if (type == "Complete") state.complete = true;
    if (type != "Failed") continue;
    state.failed = true;
    state.reason = string_at(condition, "reason");
    state.message = string_at(condition, "message");
  }
  return state;
}

Result<int> run_kubernetes_job(const KubernetesJob& job, const KubernetesLimits& limits, launch::Screen& screen) {
  DT_TRY(const std::unique_ptr<proc::Children> children, proc::Children::create({}));
  return PodFollower(job, limits, screen, *children).run();
}

}  // namespace dtrain::cluster
