#include "observe/slow.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/json.h"
#include "base/median.h"
#include "telemetry/record.h"

namespace dtrain::observe {
namespace {

constexpr double kRatio = 1.25;     // minimum ratio of a worker's step time to the median of the others
constexpr double kSeconds = 0.005;  // minimum excess of the step time over the others' median
constexpr double kStepShare = 0.1;  // minimum excess as a share of the step; a smaller share does not matter to the job
constexpr double kBusyRatio = 1.5;  // minimum ratio of a server's busy threads to the median of the others
constexpr double kBusy = 0.7;       // minimum average number of busy threads of a server
constexpr double kData = 0.1, kWait = 0.2;  // minimum shares of the time that deserve advice
constexpr double kUneven = 1.25;       // minimum ratio of the step time of the slowest worker to that of the fastest
constexpr double kCoresMissing = 0.3;  // more threads do not help if this many threads, on average, have no core
// Minimum time to read and decode an image; images in memory take less, and no flag speeds them up.
constexpr double kImageMs = 0.01;

std::string ms(double seconds) {
  return fmt::format("{:.{}f} ms", 1e3 * seconds, seconds < 0.0095 ? 1 : 0);
}

std::string bare_ms(double seconds) {
  const std::string text = ms(seconds);
  return text.substr(0, text.size() - 3);
}

std::string rate(double bytes_per_s) {
  return fmt::format("{:.{}f} MB/s", bytes_per_s / 1e6, bytes_per_s < 9.5e6 ? 1 : 0);
}

std::string name(const char* role, uint32_t rank, const std::string& host) {
  return host.empty() ? fmt::format("{} {}", role, rank) : fmt::format("{} {} ({})", role, rank, host);
}

// The median of a number over all processes but one.
template <class Period, class Number>
double of_others(const std::vector<Period>& all, size_t without, const Number& number) {
  std::vector<double> others;
  for (size_t i = 0; i < all.size(); i++) {
    if (i != without) others.push_back(number(all[i]));
  }
  return median(others);
}

using Part = double WorkerPeriod::*;

// A worker, compared with the medians of the others.
class Comparison {
 public:
  Comparison(const std::vector<WorkerPeriod>& workers, size_t i) : worker(workers[i]), workers_(workers), i_(i) {}

  template <class Number>
  [[nodiscard]] double others(const Number& number) const {
    return of_others(workers_, i_, [&](const WorkerPeriod& other) { return std::invoke(number, other); });
  }
  template <class Number>
  [[nodiscard]] double excess(const Number& number) const {
    return std::invoke(number, worker) - others(number);
  }

  const WorkerPeriod& worker;

 private:
  const std::vector<WorkerPeriod>& workers_;
  const size_t i_;
};

std::string data_details(const Comparison& compared) {
  const WorkerPeriod& worker = compared.worker;
  std::string text =
      fmt::format("{:.0f} decode thread{}", worker.decode_threads, worker.decode_threads == 1 ? "" : "s");
  const double others = compared.others(&WorkerPeriod::decode_ms);
  if (worker.decode_ms > kRatio * others) {
    text += fmt::format("; decoding an image takes {}, on other workers {}", ms(worker.decode_ms / 1e3),
                        bare_ms(others / 1e3));
  }
  return text + fmt::format("; disk {}", rate(worker.read_bytes_per_s));
}

std::string sent_details(const WorkerPeriod& worker, double seconds) {
  return fmt::format("{:.1f} MB per step, about {}", worker.sent_bytes / 1e6, rate(worker.sent_bytes / seconds));
}

void blame_data(const Comparison& compared, Slow& slow) {
  const WorkerPeriod& worker = compared.worker;
  slow.cause = Cause::kData;
  slow.figures.insert(slow.figures.end(), {{"data_wait_s", worker.data_wait_s},
                                           {"decode_threads", worker.decode_threads},
                                           {"decode_ms", worker.decode_ms},
                                           {"others_decode_ms", compared.others(&WorkerPeriod::decode_ms)},
                                           {"read_bytes_per_s", worker.read_bytes_per_s}});
  slow.sentence += fmt::format("its data wait is {} ({})", ms(worker.data_wait_s), data_details(compared));
}

void blame_computation(const Comparison& compared, bool lacks_cores, Slow& slow) {
  const WorkerPeriod& worker = compared.worker;
  const double others = compared.others(&WorkerPeriod::compute_s),
               others_busy = compared.others(&WorkerPeriod::cores_busy),
               others_missing = compared.others(&WorkerPeriod::cores_missing);
  slow.cause = Cause::kCompute;
  slow.figures.insert(slow.figures.end(), {{"compute_s", worker.compute_s},
                                           {"others_compute_s", others},
                                           {"cores_busy", worker.cores_busy},
                                           {"others_cores_busy", others_busy},
                                           {"cores_missing", worker.cores_missing},
                                           {"others_cores_missing", others_missing}});
  if (lacks_cores) {
    slow.sentence += fmt::format(
        "it lacks processor time ({:.1f} cores are busy and {:.1f} threads wait for a core; other workers: {:.1f} and "
        "{:.1f})",
        worker.cores_busy, worker.cores_missing, others_busy, others_missing);
  } else {
    slow.sentence +=
        fmt::format("it computes for {}, other workers for {} ({:.1f} cores are busy; other workers: {:.1f})",
                    ms(worker.compute_s), bare_ms(others), worker.cores_busy, others_busy);
  }
}

void blame_sending(const Comparison& compared, Slow& slow) {
  const WorkerPeriod& worker = compared.worker;
  const double others = compared.others(&WorkerPeriod::push_s);
  slow.cause = Cause::kNetwork;
  slow.figures.insert(slow.figures.end(),
                      {{"push_s", worker.push_s}, {"others_push_s", others}, {"sent_bytes", worker.sent_bytes}});
  slow.sentence += fmt::format("sending its gradients takes {}, other workers need {}: its network is slow ({})",
                               ms(worker.push_s), bare_ms(others), sent_details(worker, worker.push_s));
}

// Finds a worker whose own part of a step, without waits for others, takes longer than that of the others.
std::optional<Slow> slow_by_itself(const std::vector<WorkerPeriod>& workers, size_t i) {
  const Comparison compared(workers, i);
  const WorkerPeriod& worker = workers[i];
  const double others = compared.others(&WorkerPeriod::own_s), excess = worker.own_s() - others;
  if (excess < (kRatio - 1) * others || excess < kSeconds || excess < kStepShare * worker.step_s) return std::nullopt;
  Slow slow{.who = fmt::format("worker {}", worker.rank),
            .host = worker.host,
            .figures = {{"step_s", worker.own_s()}, {"others_step_s", others}}};
  slow.sentence = fmt::format("{} takes {} per step, other workers {}: ", name("worker", worker.rank, worker.host),
                              ms(worker.own_s()), bare_ms(others));
  const double data = compared.excess(&WorkerPeriod::data_wait_s), compute = compared.excess(&WorkerPeriod::compute_s),
               push = compared.excess(&WorkerPeriod::push_s);
  // A lack of cores slows a thread in any phase, so it is checked first.
  const bool lacks_cores = compared.excess(&WorkerPeriod::core_wait_s) > excess / 2;
  if (lacks_cores || (compute > data && compute >= push)) {
    blame_computation(compared, lacks_cores, slow);
  } else if (data >= push) {
    blame_data(compared, slow);
  } else {
    blame_sending(compared, slow);
  }
  return slow;
}

// Finds a worker whose gradients arrive later than its own work can explain.
std::optional<Slow> slow_on_the_way(const std::vector<WorkerPeriod>& workers, size_t i) {
  const Comparison compared(workers, i);
  const WorkerPeriod& worker = workers[i];
  const double others = compared.others(&WorkerPeriod::own_s);
  const double explained = std::max(0.0, worker.own_s() - others);
  const double late = compared.excess(&WorkerPeriod::lateness_s) - explained;
  if (late < kSeconds || late < (kRatio - 1) * worker.own_s() || late < kStepShare * worker.step_s) return std::nullopt;
  return Slow{
      .who = fmt::format("worker {}", worker.rank),
      .host = worker.host,
      .cause = Cause::kNetwork,
      .figures = {{"step_s", worker.own_s()},
                  {"others_step_s", others},
                  {"late_s", late},
                  {"sent_bytes", worker.sent_bytes}},
      .sentence = fmt::format(
          "{} works {} per step, other workers {}, but its gradients arrive {} after theirs: its network is slow ({})",
          name("worker", worker.rank, worker.host), ms(worker.own_s()), bare_ms(others), ms(late),
          sent_details(worker, late))};
}

std::optional<Slow> busy_server(const std::vector<ServerPeriod>& servers, size_t i) {
  const ServerPeriod& server = servers[i];
  const double others = of_others(servers, i, [](const ServerPeriod& s) { return s.busy; });
  if (server.busy < kBusy || server.busy < kBusyRatio * others) return std::nullopt;
  return Slow{
      .who = fmt::format("server {}", server.rank),
      .host = server.host,
      .cause = Cause::kServer,
      .figures = {{"busy_threads", server.busy}, {"others_busy_threads", others}, {"updates_per_s", server.updates}},
      .sentence = fmt::format("{} keeps {:.1f} threads busy, other servers {:.1f}: the workers wait for its weights "
                              "({:.0f} updates per second)",
                              name("server", server.rank, server.host), server.busy, others, server.updates)};
}

double slowest_to_fastest(const std::vector<WorkerPeriod>& workers) {
  const auto by_own = [](const WorkerPeriod& a, const WorkerPeriod& b) { return a.own_s() < b.own_s(); };
  const auto [fastest, slowest] = std::minmax_element(workers.begin(), workers.end(), by_own);
  return slowest->own_s() / std::max(fastest->own_s(), 1e-9);
}

// Advice for the worker that waits longest for its data. Empty if nothing is decoded, because then the flags for
// decoding do not help.
std::string data_remedy(const std::vector<WorkerPeriod>& workers, const JobForm& form) {
  const WorkerPeriod& worker = *std::ranges::max_element(workers, {}, &WorkerPeriod::data_wait_s);
  if (worker.decode_ms <= 0 || worker.read_ms + worker.decode_ms < kImageMs) return "";
  if (worker.read_ms > worker.decode_ms) {
    return fmt::format(
        "smaller images (dtrain im2rec --resize), because reading an image takes {:.3g} ms and decoding it {:.3g} ms "
        "(disk: {})",
        worker.read_ms, worker.decode_ms, rate(worker.read_bytes_per_s));
  }
  const bool lacks_cores = worker.cores_missing > kCoresMissing;
  if (lacks_cores || form.decoders_are_tuned) {
    return fmt::format(
        "smaller images (dtrain im2rec --resize), because decoding takes {:.3g} ms per image{}", worker.decode_ms,
        lacks_cores ? fmt::format(" and the process lacks cores ({:.1f} threads wait for one)", worker.cores_missing)
                    : fmt::format(", and --data-nthreads auto found no faster number of threads than {:.0f}",
                                  worker.decode_threads));
  }
  const double enough = worker.decode_threads * worker.step_s / std::max(worker.step_s - worker.data_wait_s, 1e-9);
  return fmt::format("more decode threads (--data-nthreads {:.0f}), because {:.0f} threads need {:.3g} ms per image",
                     std::min(std::ceil(enough), 4 * worker.decode_threads), worker.decode_threads, worker.decode_ms);
}

double busiest(const std::vector<ServerPeriod>& servers) {
  double most = 0;
  for (const ServerPeriod& server : servers) most = std::max(most, server.busy);
  return most;
}

bool is_on_several_hosts(const JobPeriod& period) {
  std::set<std::string> hosts;
  for (const WorkerPeriod& worker : period.workers) hosts.insert(worker.host);
  for (const ServerPeriod& server : period.servers) hosts.insert(server.host);
  return hosts.size() > 1;
}

// Advice if much time is spent on messages, or on waiting for them.
std::string messages_remedy(const JobPeriod& period) {
  const WorkerPeriod& worker = *std::ranges::max_element(period.workers, {}, &WorkerPeriod::cores_missing);
  if (worker.cores_missing > kCoresMissing) {
    return fmt::format("fewer processes or threads on {}, because {:.1f} threads of worker {} wait for a core",
                       worker.host.empty() ? "its host" : worker.host, worker.cores_missing, worker.rank);
  }
  return std::string("a larger --batch-size, so that each step computes longer for the same amount of communication") +
         (is_on_several_hosts(period) ? ", or a faster network between the hosts" : "");
}

std::string remedy(const JobPeriod& period, const JobForm& form) {
  if (period.workers.empty() || period.seconds < telemetry::kJudgedAfterSeconds) return "";
  const TimeShares shares = time_shares(period);
  if (shares.data_wait > kData && shares.data_wait > shares.pull_wait) {
    return data_remedy(period.workers, form);
  }
  if (shares.pull_wait + shares.push <= kWait) return "";
  const bool is_uneven = period.workers.size() > 1 && slowest_to_fastest(period.workers) > kUneven;
  if (is_uneven && form.waits_for_slow && shares.pull_wait > kWait) {
    return fmt::format(
        "groups of workers of similar speed, because fast workers wait for slow ones: 'dtrain plan --from-log {}' "
        "proposes groups for --kv-store dist_gsync",
        form.run_dir);
  }
  if (form.servers > 0 && busiest(period.servers) > kBusy) {
    return fmt::format("more servers (-s {}), because the servers are busy", form.servers * 2);
  }
  return messages_remedy(period);
}

}  // namespace

const char* to_text(Cause cause) {
  switch (cause) {
    case Cause::kData: return "data";
    case Cause::kCompute: return "compute";
    case Cause::kNetwork: return "network";
    case Cause::kServer: return "server";
  }
  return "";
}

std::vector<Slow> find_slow(const JobPeriod& period) {
  std::vector<Slow> found;
  for (size_t i = 0; period.workers.size() > 1 && i < period.workers.size(); i++) {
    std::optional<Slow> slow = slow_by_itself(period.workers, i);
    if (!slow) slow = slow_on_the_way(period.workers, i);
    if (slow) found.push_back(std::move(*slow));
  }
  for (size_t i = 0; period.servers.size() > 1 && i < period.servers.size(); i++) {
    if (std::optional<Slow> slow = busy_server(period.servers, i)) found.push_back(std::move(*slow));
  }
  return found;
}

TimeShares time_shares(const JobPeriod& period) {
  TimeShares sum;
  for (const WorkerPeriod& worker : period.workers) {
    sum.data_wait += worker.data_wait_s * worker.steps;
    sum.compute += worker.compute_s * worker.steps;
    sum.push += worker.push_s * worker.steps;
    sum.pull_wait += worker.pull_wait_s * worker.steps;
  }
  const double all = sum.data_wait + sum.compute + sum.push + sum.pull_wait;
  if (all <= 0) return {};
  return {sum.data_wait / all, sum.compute / all, sum.push / all, sum.pull_wait / all};
}

std::string time_shares_text(const TimeShares& shares) {
  return fmt::format(
      "of the workers' time, computing took {:.0f} %, waiting for data {:.0f} %, sending gradients {:.0f} "
      "%, waiting for weights {:.0f} %",
      100 * shares.compute, 100 * shares.data_wait, 100 * shares.push, 100 * shares.pull_wait);
}

std::string advice(const JobPeriod& period, const JobForm& form) {
  const std::string text = remedy(period, form);
  return text.empty() ? "" : "what would help most: " + text;
}

Conclusion conclude(const JobPeriod& run, const JobForm& form) {
  if (run.workers.empty()) return {};
  return {.time_shares = time_shares(run), .advice = advice(run, form)};
}

std::string to_json(const Slow& slow) {
  nlohmann::ordered_json json = {{"process", slow.who}, {"host", slow.host}, {"cause", to_text(slow.cause)}};
  for (const auto& [name, value] : slow.figures) json[name] = value;
  json["text"] = slow.sentence;
  return json_text(nlohmann::ordered_json{{"slow", json}});
}

std::string to_json(const Conclusion& conclusion) {
  nlohmann::ordered_json json = {{"time_shares", nullptr}, {"advice", nullptr}};
  if (const std::optional<TimeShares>& shares = conclusion.time_shares) {
    json["time_shares"] = {{"data_wait", shares->data_wait},
                           {"compute", shares->compute},
                           {"push", shares->push},
                           {"pull_wait", shares->pull_wait}};
  }
  if (!conclusion.advice.empty()) json["advice"] = conclusion.advice;
  return json_text(json);
}

std::vector<Slow> SlowWatch::update(const std::vector<Source>& sources, double now_s) {
  if (before_s_ < 0) {
    before_ = sources;
    before_s_ = now_s;
    return {};
  }
  if (now_s - before_s_ < kPeriodSeconds) return {};
  const JobPeriod period = period_between(before_, sources, now_s - before_s_);
  for (const WorkerPeriod& worker : period.workers) {
    if (worker.steps < kStepsMin) return {};
  }
  before_ = sources;
  before_s_ = now_s;
  std::vector<Slow> news;
  for (Slow& slow : find_slow(period)) {
    if (said_.insert({slow.who, slow.cause}).second) news.push_back(std::move(slow));
  }
  return news;
}

}  // namespace dtrain::observe
