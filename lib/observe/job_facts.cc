#include "observe/job_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <system_error>

#include "base/json.h"
#include "base/log_prefix.h"
#include "observe/phases.h"

namespace dtrain::observe {
namespace {

using nlohmann::json;
using telemetry::Metric;

constexpr size_t kEventsMax = 300;
constexpr size_t kLinesMax = 200;
// The increase over a shorter time is not shown, because heartbeats come only every 2 s.
constexpr double kGrowthSecondsMin = 3;
constexpr std::string_view kHttps = "https://";
// The metrics of a process that the page shows. All metrics would be too many: with a hundred workers, some metrics
// have a value for each peer.
constexpr std::array kShown = {Metric::kStep,
                               Metric::kSamplesPerS,
                               Metric::kGpuBusyShare,
                               Metric::kGpuMemoryBytes,
                               Metric::kGpuMemoryTotalBytes,
                               Metric::kUpdates,
                               Metric::kParkedPulls,
                               Metric::kStaleness};
// The metrics of which the page shows the increase.
constexpr std::array kCounters = {Metric::kPhaseSeconds, Metric::kServerBusySeconds};

double value_or_nan(const telemetry::Snapshot& snapshot, Metric metric) {
  return telemetry::value_of(snapshot, metric).value_or(std::numeric_limits<double>::quiet_NaN());
}

// The number, or null if it is not finite, because JSON has no NaN.
json finite_or_null(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

// The share of each phase in a worker's time since `before` (null: since its start), indexed by name. Null if nothing
// was measured.
json phase_shares(const Source& now, const Source* before) {
  std::map<std::string, double> shares;
  double all = 0;
  for (const telemetry::Sample& sample : now.snapshot) {
    if (sample.metric != Metric::kPhaseSeconds) continue;
    const auto earlier = before ? telemetry::value_of(before->snapshot, sample.metric, sample.label) : std::nullopt;
    all += shares[sample.label] = std::max(0.0, sample.value - earlier.value_or(0));
  }
  if (!(all > 0)) return nullptr;
  json object = json::object();
  double other = 0;
  for (const auto& [phase, seconds] : shares) {
    const double share = seconds / all;
    if (share < kShareMin || phase == kOtherPhase) {
      other += share;
    } else {
      object[phase] = share;
    }
  }
  if (other > 0) object[std::string(kOtherPhase)] = other;
  return object;
}

// The average number of busy threads of a server; null if not known.
json busy_threads(const Source& now, const Source* before, double seconds) {
  const std::optional<double> busy = telemetry::value_of(now.snapshot, Metric::kServerBusySeconds);
  if (!busy || before == nullptr) return nullptr;
  return finite_or_null((*busy - telemetry::value_of(before->snapshot, Metric::kServerBusySeconds).value_or(0)) /
                        seconds);
}

// For `before` and `seconds` see JobFacts::earlier.
json to_json(const ProcessState& process, const Source* before, double seconds) {
  const telemetry::Snapshot& snapshot = process.source.snapshot;
  json object = {{"role", process.source.role},
                 {"rank", process.source.rank},
                 {"host", process.source.host},
                 {"wait", process.wait},
                 {"wait_s", finite_or_null(process.wait_s)},
                 {"heard_s", finite_or_null(process.heard_s)},
                 {"lost", process.is_lost},
                 {"shares", phase_shares(process.source, before)},
                 {"busy", busy_threads(process.source, before, seconds)},
                 {"steps", process.steps ? json(*process.steps) : json(nullptr)}};
  for (const telemetry::Sample& sample : snapshot) {
    if (std::find(kShown.begin(), kShown.end(), sample.metric) == kShown.end()) continue;
    const telemetry::MetricInfo& info = telemetry::info(sample.metric);
    json& metric = object["metrics"][std::string(info.name)];
    if (info.kind == telemetry::Kind::kHistogram) {
      metric = {{"sum", finite_or_null(sample.value)}, {"counts", sample.counts}};
    } else if (info.label.empty()) {
      metric = finite_or_null(sample.value);
    } else {
      metric[sample.label] = finite_or_null(sample.value);
    }
  }
  return object;
}

json to_json(const CurvePoint& point) {
  json workers = json::array();
  for (const double one : point.by_worker) workers.push_back(finite_or_null(one));
  return {finite_or_null(point.seconds),       point.step,
          finite_or_null(point.loss),          finite_or_null(point.accuracy),
          finite_or_null(point.validation),    finite_or_null(point.learning_rate),
          finite_or_null(point.samples_per_s), workers};
}

json to_json(const JobIdentity& identity) {
  json phases = json::array();
  for (const PhaseWords& phase : kPhaseWords) phases.push_back({phase.name, phase.words, phase.is_wait});
  return {{"name", identity.name},
          {"network", identity.network},
          {"scheme", identity.scheme},
          {"workers", identity.workers},
          {"servers", identity.servers},
          {"phases", phases},
          {"staleness_bounds", telemetry::info(Metric::kStaleness).bounds},
          {"curve_workers_max", kCurveWorkersMax}};
}

// The newest `count` of the deque, as an array.
template <class Item, class ToJson>
json newest(const std::deque<Item>& items, uint64_t count, ToJson&& to_json_of) {
  json array = json::array();
  const size_t some = std::min<size_t>(items.size(), count);
  for (size_t i = items.size() - some; i < items.size(); i++) array.push_back(to_json_of(items[i]));
  return array;
}

template <class Item>
void add_bounded(std::deque<Item>& items, Item item, size_t max) {
  items.push_back(std::move(item));
  if (items.size() > max) items.pop_front();
}

CurvePoint point_of(const JobState& state) {
  CurvePoint point{.seconds = state.seconds, .step = state.step, .samples_per_s = state.samples_per_s};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  point.loss = point.accuracy = point.validation = point.learning_rate = nan;
  for (const ProcessState& process : state.processes) {
    if (process.source.role != "worker") continue;
    const telemetry::Snapshot& snapshot = process.source.snapshot;
    if (process.source.rank == 0) {
      point.loss = value_or_nan(snapshot, Metric::kTrainCrossEntropy);
      point.accuracy = value_or_nan(snapshot, Metric::kTrainAccuracy);
      point.validation = value_or_nan(snapshot, Metric::kValidationAccuracy);
      point.learning_rate = value_or_nan(snapshot, Metric::kLearningRate);
    }
    if (process.source.rank >= kCurveWorkersMax) continue;
    point.by_worker.resize(std::max<size_t>(point.by_worker.size(), process.source.rank + size_t{1}), nan);
    point.by_worker[process.source.rank] = value_or_nan(snapshot, Metric::kSamplesPerS);
  }
  return point;
}

// The value of "NAME=" in a line of NAME=VALUE words; empty if it has none.
std::string word_of(const std::string& line, const std::string& name) {
  const size_t at = line.find(" " + name + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 2;
  return line.substr(begin, line.find(' ', begin) - begin);
}

// Converts a line "join role=worker rank=2 host=node1 addr=10.0.0.3" to "worker 2 on node1 (10.0.0.3)". A line that
// lacks one of these words is returned unchanged.
std::string process_in_words(const std::string& line) {
  const std::string role = word_of(line, "role"), rank = word_of(line, "rank"), host = word_of(line, "host"),
                    address = word_of(line, "addr"), silent_ms = word_of(line, "silent_ms");
  if (role.empty() || rank.empty()) return line;
  if (!host.empty() && !address.empty()) return fmt::format("{} {} on {} ({})", role, rank, host, address);
  int64_t ms = 0;
  const auto [end, error] = std::from_chars(silent_ms.data(), silent_ms.data() + silent_ms.size(), ms);
  if (error != std::errc()) return line;
  return fmt::format("{} {}, silent for {:.1f} s", role, rank, static_cast<double>(ms) / 1e3);
}

// Converts "Epoch[0] Validation-accuracy=0.9" to "epoch 1 of 20: Validation-accuracy=0.9", because MXNet's log counts
// epochs from 0 and people count from 1. Other texts are returned unchanged.
std::string with_epoch_from_1(const std::string& text, int64_t epochs) {
  constexpr std::string_view kBegin = "Epoch[", kEnd = "]";
  int64_t epoch = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + std::min(kBegin.size(), text.size()), last, epoch);
  const std::string_view rest(stop, last);
  if (!text.starts_with(kBegin) || error != std::errc() || !rest.starts_with(kEnd)) return text;
  return fmt::format("epoch {}{}:{}", epoch + 1, epochs > 0 ? fmt::format(" of {}", epochs) : "",
                     rest.substr(kEnd.size()));
}

// Removes `beginning` from the text. Returns false if the text begins differently.
bool take_beginning(std::string& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.erase(0, beginning.size());
  return true;
}

}  // namespace

JobEvent event_of(const std::string& log_line) {
  static constexpr std::array<std::pair<const char*, const char*>, 12> kBeginnings = {{
      {"the scheduler is connected to ", "start"},
      {"join role=", "join"},
      {"lost role=", "loss"},
      {"Saved checkpoint to ", "checkpoint"},
      {"New groups: ", "regroup"},
      {"learning rate x ", "rate"},
      {"Update[", "rate"},
      {"Stopped ", "stop"},
      {"Finished ", "finish"},
      {"what would help most: ", "advice"},
      {"Reached ", "validation"},
      {"Loaded model ", "checkpoint"},
  }};
  const SplitLine line = split_log_line(log_line);
  if (line.node.empty()) return {};
  std::string text(line.text);
  const bool is_warning = take_beginning(text, "warning: ");
  for (const auto& [beginning, kind] : kBeginnings) {
    if (text.starts_with(beginning)) return {.seconds = 0, .kind = kind, .text = process_in_words(text)};
  }
  if (is_warning) {
    const char* const kind = take_beginning(text, "slow: ") ? "slow" : "warning";
    return {.seconds = 0, .kind = kind, .text = text};
  }
  const bool is_validation = text.starts_with("Epoch[") && text.find("] Validation-") != std::string::npos;
  return is_validation ? JobEvent{.seconds = 0, .kind = "validation", .text = text} : JobEvent{};
}

void JobFacts::update(JobState state) {
  const MutexLock lock(mutex_);
  state_ = std::move(state);
  keep_counters();
  added_.states++;
  if (added_.states % updates_per_point_ == 0) add_point(state_);
}

void JobFacts::keep_counters() {
  Counters counters{.seconds = state_.seconds, .sources = {}};
  for (const ProcessState& process : state_.processes) {
    Source& kept = counters.sources.emplace_back(Source{process.source.role, process.source.rank, "", {}});
    std::ranges::copy_if(
        process.source.snapshot, std::back_inserter(kept.snapshot),
        [](const telemetry::Sample& sample) { return std::ranges::find(kCounters, sample.metric) != kCounters.end(); });
  }
  recent_.push_back(std::move(counters));
  while (recent_.size() > 2 && recent_[1].seconds <= state_.seconds - kRecentSeconds) recent_.pop_front();
}

std::pair<const Source*, double> JobFacts::earlier(const Source& source) const {
  for (const Counters& counters : recent_) {
    const double seconds = state_.seconds - counters.seconds;
    if (seconds < kGrowthSecondsMin) break;
    for (const Source& then : counters.sources) {
      if (then.role == source.role && then.rank == source.rank) return {&then, seconds};
    }
  }
  return {nullptr, 0};
}

// Adds a point. When there are too many points, every second one is dropped, and from then on points are added half as
// often.
void JobFacts::add_point(const JobState& state) {
  points_.push_back(point_of(state));
  added_.points++;
  if (points_.size() <= kCurvePointsMax) return;
  std::deque<CurvePoint> kept;
  for (size_t i = 0; i < points_.size(); i += 2) kept.push_back(std::move(points_[i]));
  points_ = std::move(kept);
  updates_per_point_ *= 2;
}

void JobFacts::add_event(const std::string& kind, const std::string& text) {
  add_bounded(events_, {.seconds = state_.seconds, .kind = kind, .text = text}, kEventsMax);
  added_.events++;
}

void JobFacts::add_line(const LogLine& line) {
  add_bounded(lines_, line, kLinesMax);
  added_.lines++;
}

void JobFacts::add_earlier_log(const std::vector<LogLine>& lines) {
  const MutexLock lock(mutex_);
  for (const LogLine& line : lines) add_line(line);
}

void JobFacts::add_log(const std::vector<LogLine>& lines) {
  const MutexLock lock(mutex_);
  for (const LogLine& line : lines) {
    add_line(line);
    const JobEvent event = event_of(line.text);
    if (!event.kind.empty()) add_event(event.kind, line.process + ": " + with_epoch_from_1(event.text, state_.epochs));
  }
}

void JobFacts::end(bool is_success, const std::string& how) {
  const MutexLock lock(mutex_);
  ended_ = how;
  is_success_ = is_success;
  added_.states++;
  add_event("end", how);
}

std::vector<Source> JobFacts::sources() const {
  const MutexLock lock(mutex_);
  std::vector<Source> all;
  for (const ProcessState& process : state_.processes) all.push_back(process.source);
  return all;
}

std::string JobFacts::targets() const {
  const MutexLock lock(mutex_);
  json all = json::array();
  for (const ProcessState& process : state_.processes) {
    for (const telemetry::Sample& sample : process.source.snapshot) {
      if (sample.metric != Metric::kEndpoint) continue;
      json labels = {{"job", identity_.name},
                     {"role", process.source.role},
                     {"rank", std::to_string(process.source.rank)},
                     {"host", process.source.host}};
      std::string_view address = sample.label;
      if (address.starts_with(kHttps)) {
        address.remove_prefix(kHttps.size());
        labels["__scheme__"] = "https";  // Prometheus reads the scheme from this label
      }
      all.push_back({{"targets", {address}}, {"labels", labels}});
    }
  }
  return json_text(all);
}

std::string JobFacts::text(Seen& seen, bool all) const {
  const MutexLock lock(mutex_);
  if (!all && seen.states == added_.states && seen.events == added_.events && seen.lines == added_.lines) return "";
  json object;
  if (all) object["job"] = to_json(identity_);
  json& state = object["state"] = {{"seconds", finite_or_null(state_.seconds)},
                                   {"step", state_.step},
                                   {"steps", state_.steps},
                                   {"epoch", state_.epoch},
                                   {"epochs", state_.epochs},
                                   {"samples_per_s", finite_or_null(state_.samples_per_s)},
                                   {"eta_s", finite_or_null(state_.eta_s)},
                                   {"ended", ended_},
                                   {"success", is_success_},
                                   {"now", to_json(point_of(state_))}};
  state["processes"] = json::array();
  for (const ProcessState& process : state_.processes) {
    const auto [before, seconds] = earlier(process.source);
    state["processes"].push_back(to_json(process, before, seconds));
  }
  const auto since = [all](uint64_t added, uint64_t before) { return all ? added : added - before; };
  object["points"] = newest(points_, since(added_.points, seen.points), [](const CurvePoint& p) { return to_json(p); });
  object["events"] = newest(events_, since(added_.events, seen.events), [](const JobEvent& event) -> json {
    return {finite_or_null(event.seconds), event.kind, event.text};
  });
  object["log"] = newest(lines_, since(added_.lines, seen.lines), [](const LogLine& line) -> json {
    return {line.process, line.text};
  });
  seen = added_;
  return json_text(object);
}

class JobFacts::Follower final : public net::EventStream {
 public:
  explicit Follower(const JobFacts& facts) : facts_(facts) {}
  std::string take() override {
    const bool is_first = std::exchange(is_first_, false);
    const std::string text = facts_.text(seen_, is_first);
    if (text.empty()) return "";
    return std::string("event: ") + (is_first ? "history" : "update") + "\ndata: " + text + "\n\n";
  }

 private:
  const JobFacts& facts_;
  Seen seen_;
  bool is_first_ = true;
};

std::unique_ptr<net::EventStream> JobFacts::follow() const {
  return std::make_unique<Follower>(*this);
}

std::string JobFacts::history() const {
  Seen seen;
  return text(seen, true);
}

}  // namespace dtrain::observe
