#include "role/scheduler/job_view.h"

#include <algorithm>
#include <utility>

#include "base/host_limits.h"
#include "role/process/membership.h"
#include "role/process/report.h"

namespace dtrain::role {

using telemetry::Metric;

observe::Source source_of(rpc::MemberPulse member) {
  return {.role = std::string(to_text(member.member.role)),
          .rank = member.member.rank,
          .host = std::move(member.host),
          .snapshot = std::move(member.pulse.metrics)};
}

std::vector<job::WorkerProgress> worker_progress(const std::vector<rpc::MemberPulse>& members) {
  std::vector<job::WorkerProgress> workers;
  for (const rpc::MemberPulse& member : members) {
    if (member.member.role != rpc::Role::kWorker) continue;
    workers.push_back(member.pulse.progress);
    workers.back().rank = member.member.rank;
    if (member.is_lost || member.has_left) workers.back().samples_per_s = 0;
  }
  return workers;
}

JobView::JobView(telemetry::Registry& own, observe::JobForm form, double stall_timeout_s, Log log)
    : own_(own),
      form_(std::move(form)),
      log_(std::move(log)),
      stalls_(stall_timeout_s > 0 ? std::min(stall_timeout_s, observe::StallWatch::kUsualSeconds)
                                  : observe::StallWatch::kUsualSeconds) {}

void JobView::set_job_metrics(const job::Progress& progress, const std::vector<rpc::MemberPulse>& members) {
  double workers = 0, servers = 0;
  for (const rpc::MemberPulse& member : members) {
    if (!member.is_lost && !member.has_left) (member.member.role == rpc::Role::kWorker ? workers : servers)++;
    const std::chrono::duration<double> age = Clock::now() - member.heard;
    own_.set(Metric::kHeartbeatAgeSeconds, age.count(), to_text(member.member));
  }
  own_.set(Metric::kJobWorkers, workers);
  own_.set(Metric::kJobServers, servers);
  own_.set(Metric::kJobSteps, static_cast<double>(progress.step), "done");
  own_.set(Metric::kJobSteps, static_cast<double>(progress.steps), "all");
  own_.set(Metric::kJobEpochs, static_cast<double>(progress.epoch), "done");
  own_.set(Metric::kJobEpochs, static_cast<double>(progress.epochs), "all");
  if (progress.eta_s >= 0) own_.set(Metric::kJobEtaSeconds, progress.eta_s);
  own_.set(Metric::kSamplesPerS, progress.samples_per_s);
  own_.set(Metric::kWaitDataShare, progress.wait_data);
  own_.set(Metric::kWaitNetworkShare, progress.wait_network);
}

std::vector<observe::Slow> JobView::update(const job::Progress& progress, std::vector<rpc::MemberPulse> members) {
  set_job_metrics(progress, members);
  sources_.clear();
  for (rpc::MemberPulse& member : members) sources_.push_back(source_of(std::move(member)));
  sources_.push_back({.role = "scheduler", .rank = 0, .host = host_name(), .snapshot = own_.snapshot()});
  const std::chrono::duration<double> now = Clock::now() - began_;
  std::vector<observe::Slow> news = slow_.update(sources_, now.count());
  for (const observe::Slow& slow : news) log_.warn("slow: {}", slow.sentence);
  return news;
}

std::vector<observe::Stalled> JobView::find_stalled(const std::vector<rpc::MemberPulse>& members) {
  std::vector<observe::Activity> processes;
  for (const rpc::MemberPulse& member : members) {
    const bool is_worker = member.member.role == rpc::Role::kWorker;
    processes.push_back({.who = to_text(member.member),
                         .host = member.host,
                         .steps = is_worker ? std::optional(member.pulse.progress.step) : std::nullopt,
                         .wait = member.pulse.wait,
                         .is_own_work = member.pulse.is_own_work,
                         .report_age_s = member.pulse.report_age_s,
                         .has_ended = member.has_ended || member.is_lost});
  }
  const std::chrono::duration<double> now = Clock::now() - began_;
  std::vector<observe::Stalled> stalled = stalls_.update(processes, now.count());
  for (const observe::Stalled& one : stalled) {
    if (one.is_news) log_.warn("stalled: {}", one.sentence);
  }
  return stalled;
}

std::vector<observe::MemberChange> JobView::note(const std::vector<rpc::MemberChange>& changes) const {
  using Kind = observe::MemberChange::Kind;
  const std::chrono::duration<double> now = Clock::now() - began_;
  std::vector<observe::MemberChange> news;
  for (const rpc::MemberChange& change : changes) {
    if (change.kind == rpc::MemberChange::Kind::kAwaited) continue;  // who takes part has not changed
    const bool is_lost = change.kind == rpc::MemberChange::Kind::kLost;
    const bool has_left = change.kind == rpc::MemberChange::Kind::kLeft;
    news.push_back({.kind = is_lost    ? Kind::kLost
                            : has_left ? Kind::kLeft
                                       : Kind::kJoined,
                    .who = to_text(change.member),
                    .host = change.host,
                    .why = change.why,
                    .steps = change.steps,
                    .seconds = now.count()});
  }
  return news;
}

observe::Conclusion JobView::end() const {
  const std::chrono::duration<double> all = Clock::now() - began_;
  return conclude_run(log_, observe::period_between({}, sources_, all.count()), form_);
}

}  // namespace dtrain::role
