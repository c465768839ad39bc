// Creates the output of `dtrain simulate`.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/duration_text.h"
#include "base/json.h"
#include "plan/simulate.h"

namespace dtrain::plan {
namespace {

struct Sums {
  double computing_s = 0, waiting_s = 0, network_s = 0;
  [[nodiscard]] double all_s() const { return std::max(computing_s + waiting_s + network_s, 1e-9); }
};

Sums sums_of(const Outcome& outcome) {
  Sums sums;
  for (const Outcome::WorkerTimes& times : outcome.workers) {
    sums.computing_s += times.computing_s;
    sums.waiting_s += times.waiting_s;
    sums.network_s += times.network_s;
  }
  return sums;
}

double epoch_s(const Outcome& outcome) {
  return outcome.seconds / static_cast<double>(std::max<size_t>(outcome.epoch_s.size(), 1));
}

// The column of a staleness in the histogram. The columns are 1, 2, 3-4, 5-8, ...: each ends at a power of two.
size_t column_of(uint64_t staleness) {
  size_t column = 0;
  while ((uint64_t{1} << column) < staleness) column++;
  return column;
}

std::string column_name(size_t column) {
  const uint64_t end = uint64_t{1} << column, begin = end / 2 + 1;
  return begin >= end ? fmt::format("{}", end) : fmt::format("{}-{}", begin, end);
}

// The workers grouped by their step time, in ascending order.
std::map<double, std::vector<size_t>> by_speed(const std::vector<double>& step_ms) {
  std::map<double, std::vector<size_t>> workers;
  for (size_t w = 0; w < step_ms.size(); w++) workers[step_ms[w]].push_back(w);
  return workers;
}

constexpr size_t kSpeedsMax = 8;  // maximum number of columns in a table of the workers' speeds

std::string job_line(const SimulateResult& result) {
  const SimulateOptions& options = result.options;
  const auto speeds = by_speed(result.step_ms);
  const std::string mean = speeds.size() == 1
                               ? fmt::format("{:g} ms", speeds.begin()->first)
                               : fmt::format("{:g} to {:g} ms", speeds.begin()->first, speeds.rbegin()->first);
  return fmt::format("{} workers, {} a step +-{:g} %; {} server{}, {:.1f} MB a step, {:g} Gbit/s, {:g} ms; seed {}\n\n",
                     result.step_ms.size(), mean, options.jitter * 100, options.servers,
                     options.servers == 1 ? "" : "s", static_cast<double>(options.bytes) / 1e6, options.bandwidth,
                     options.latency_ms, options.seed);
}

std::string times_table(const SimulateResult& result) {
  const bool learns = result.options.loss > 0;
  std::string text =
      fmt::format("{:<16}{:>10}{:>11}{:>11}{:>7}{:>11}{:>9}{:>9}{:>8}{:>11}{:>10}", "scheme", "s/epoch", "updates/s",
                  "staleness", "max", "computing", "waiting", "network", "late", "messages", "GB");
  if (learns) text += fmt::format("{:>16}{:>10}", fmt::format("s to loss {:g}", result.options.loss), "at end");
  text += "\n";
  for (const SchemeResult& scheme : result.schemes) {
    const Outcome& outcome = scheme.outcome;
    const Sums sums = sums_of(outcome);
    text += fmt::format("{:<16}{:>10.3f}{:>11.2f}{:>11.2f}{:>7}{:>9.1f} %{:>7.1f} %{:>7.1f} %{:>8}{:>11}{:>10.2f}",
                        scheme.name, epoch_s(outcome), outcome.updates_per_s(), scheme.staleness_mean(),
                        scheme.staleness_max(), 100 * sums.computing_s / sums.all_s(),
                        100 * sums.waiting_s / sums.all_s(), 100 * sums.network_s / sums.all_s(), outcome.late,
                        outcome.messages, static_cast<double>(outcome.bytes) / 1e9);
    if (learns) {
      const std::string reached = scheme.reached_s ? fmt::format("{:.3f}", *scheme.reached_s) : "not reached";
      text += fmt::format("{:>16}{:>10.3f}", reached, scheme.last_loss);
    }
    text += "\n";
  }
  return text;
}

std::string staleness_table(const SimulateResult& result) {
  size_t columns = 1;
  for (const SchemeResult& scheme : result.schemes) columns = std::max(columns, column_of(scheme.staleness_max()) + 1);
  std::string text = fmt::format("\n{:<16}", "staleness");
  for (size_t c = 0; c < columns; c++) text += fmt::format("{:>12}", column_name(c));
  text += "\n";
  for (const SchemeResult& scheme : result.schemes) {
    std::vector<uint64_t> counts(columns, 0);
    for (const auto& [staleness, count] : scheme.outcome.staleness) counts[column_of(staleness)] += count;
    text += fmt::format("{:<16}", scheme.name);
    const auto updates = static_cast<double>(std::max<uint64_t>(scheme.outcome.updates, 1));
    for (const uint64_t count : counts) {
      text += count == 0 ? fmt::format("{:>12}", "")
                         : fmt::format("{:>10.1f} %", 100 * static_cast<double>(count) / updates);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

std::string waiting_table(const SimulateResult& result) {
  const auto speeds = by_speed(result.step_ms);
  if (speeds.size() > kSpeedsMax) return "";  // --csv lists each worker instead
  std::string text = fmt::format("\n{:<16}", "waiting, s");
  for (const auto& [ms, workers] : speeds)
    text += fmt::format("{:>16}", fmt::format("{:g} ms x {}", ms, workers.size()));
  text += fmt::format("{:>16}\n", "all");
  for (const SchemeResult& scheme : result.schemes) {
    text += fmt::format("{:<16}", scheme.name);
    for (const auto& [ms, workers] : speeds) {
      double waiting_s = 0;
      for (const size_t w : workers) waiting_s += scheme.outcome.workers[w].waiting_s;
      text += fmt::format("{:>16.3f}", waiting_s / static_cast<double>(workers.size()));
    }
    text += fmt::format("{:>16.3f}\n", sums_of(scheme.outcome).waiting_s);
  }
  return text;
}

std::string hours(double seconds) {
  return fmt::format("{:.2f}", seconds / 3600);
}

// The row of one policy. Percentages are of the duration without losses.
std::string policy_row(const SchemeResult& scheme, const PolicyResult& policy, bool shows_undone) {
  const std::string start = fmt::format("{:<16}{:<9}", scheme.name, name_of(policy.policy));
  const int64_t failed = policy.jobs - policy.finished;
  if (policy.finished == 0) {
    const char* why = policy.workers_at_end < 1 ? "no worker was left" : "more than 10 times as long";
    return fmt::format("{}{:>10}  {} (in all {} jobs)\n", start, "-", why, policy.jobs);
  }
  const auto percent = [&](double seconds) { return fmt::format("{:.1f} %", 100 * seconds / scheme.job_s); };
  std::string row =
      fmt::format("{}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10.1f}{:>12.1f}", start, hours(policy.mean_s),
                  percent(policy.mean_s - scheme.job_s), percent(policy.standing_s), percent(policy.fewer_s),
                  percent(policy.repeated_s), policy.losses, policy.workers_at_end);
  if (shows_undone) row += fmt::format("{:>10.1f}", policy.updates_undone);
  if (failed > 0) row += fmt::format("  {:.0f} % did not finish", 100.0 * static_cast<double>(failed) / policy.jobs);
  return row + "\n";
}

bool has_scheme(const SimulateResult& result, ServerLoss loss) {
  return std::any_of(result.schemes.begin(), result.schemes.end(),
                     [loss](const SchemeResult& scheme) { return scheme.server_loss == loss; });
}

// What the model assumes about servers.
std::string servers_lines(const SimulateResult& result) {
  const SimulateOptions& options = result.options;
  const std::string servers =
      options.servers == 1 ? "the server is lost" : fmt::format("each of the {} servers is lost", options.servers);
  if (options.snapshot_every == 0) return servers + " as often, and then all start again (no --snapshot-every)\n";
  std::string text = fmt::format(
      "{} as often, and replaced as a worker is, while all workers stand still; snapshots every {} update{}, each "
      "written in {}\n",
      servers, options.snapshot_every, options.snapshot_every == 1 ? "" : "s",
      duration_text(std::chrono::duration<double>(result.snapshot_write_s)));
  if (has_scheme(result, ServerLoss::kGoBack))
    text += "bsp then goes back to the newest snapshot that all servers have\n";
  if (has_scheme(result, ServerLoss::kContinue)) {
    text += "in schemes other than bsp, the replaced server then lacks the updates since its own newest snapshot\n";
  }
  return text;
}

std::string losses_table(const SimulateResult& result) {
  const SimulateOptions& options = result.options;
  std::string text = fmt::format(
      "a worker is lost after {:g} hours on average, noticed after {}, replaced after {}; {}\n"
      "the scheduler is lost as often, and {}\n",
      options.mtbf_hours, duration_text(options.heartbeat_timeout), duration_text(options.replace_time),
      options.save_every.count() > 0
          ? fmt::format("checkpoints every {} and every epoch", duration_text(options.save_every))
          : "checkpoints every epoch",
      options.scheduler_returns ? "comes back (--state-dir)" : "then all start again (no --state-dir)");
  text += servers_lines(result) + "\n";
  const bool shows_undone = has_scheme(result, ServerLoss::kContinue);
  text += fmt::format("{:<16}{:<9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{}\n", "scheme", "policy", "hours", "more",
                      "standing", "fewer", "repeated", "losses", "workers", shows_undone ? "    undone" : "");
  for (const SchemeResult& scheme : result.schemes) {
    text += fmt::format("{:<16}{:<9}{:>10}\n", scheme.name, "no loss", hours(scheme.job_s));
    for (const PolicyResult& policy : scheme.policies) text += policy_row(scheme, policy, shows_undone);
  }
  return text;
}

// The means by name, as JSON and CSV list them.
std::vector<std::pair<const char*, double>> means_of(const PolicyResult& policy) {
  return {{"seconds", policy.mean_s},
          {"standing_s", policy.standing_s},
          {"fewer_s", policy.fewer_s},
          {"repeated_s", policy.repeated_s},
          {"losses", policy.losses},
          {"workers_at_end", policy.workers_at_end},
          {"updates_undone", policy.updates_undone}};
}

nlohmann::ordered_json json_of(const PolicyResult& policy) {
  nlohmann::ordered_json object = {
      {"policy", name_of(policy.policy)}, {"jobs", policy.jobs}, {"finished", policy.finished}};
  for (const auto& [name, value] : means_of(policy)) object[name] = value;
  return object;
}

nlohmann::ordered_json json_of(const SchemeResult& scheme, bool learns) {
  const Outcome& outcome = scheme.outcome;
  const Sums sums = sums_of(outcome);
  nlohmann::ordered_json object = {{"scheme", scheme.name},
                                   {"finished", outcome.all_finished},
                                   {"seconds", outcome.seconds},
                                   {"epoch_s", outcome.epoch_s},
                                   {"updates", outcome.updates},
                                   {"updates_per_s", outcome.updates_per_s()},
                                   {"gradients", outcome.gradients},
                                   {"applied", outcome.applied},
                                   {"late", outcome.late},
                                   {"staleness_mean", scheme.staleness_mean()},
                                   {"staleness_max", scheme.staleness_max()},
                                   {"computing_s", sums.computing_s},
                                   {"waiting_s", sums.waiting_s},
                                   {"network_s", sums.network_s},
                                   {"messages", outcome.messages},
                                   {"bytes", outcome.bytes}};
  auto& histogram = object["staleness"] = nlohmann::ordered_json::array();
  for (const auto& [staleness, count] : outcome.staleness) histogram.push_back({staleness, count});
  auto& workers = object["workers"] = nlohmann::ordered_json::array();
  for (const Outcome::WorkerTimes& times : outcome.workers) {
    workers.push_back({{"steps", times.steps},
                       {"computing_s", times.computing_s},
                       {"waiting_s", times.waiting_s},
                       {"network_s", times.network_s}});
  }
  for (const PolicyResult& policy : scheme.policies) {
    object["job_s"] = scheme.job_s;
    object["server_loss"] = name_of(scheme.server_loss);
    object["policies"].push_back(json_of(policy));
  }
  if (!learns) return object;
  object["seconds_to_loss"] = scheme.reached_s ? nlohmann::ordered_json(*scheme.reached_s) : nullptr;
  object["loss"] = scheme.last_loss;
  return object;
}

// The lines of csv() about the losses under a scheme.
std::string losses_csv(const SimulateResult& result, const SchemeResult& scheme) {
  std::string text;
  const auto row = [&](std::string_view quantity, const auto& value) {
    fmt::format_to(std::back_inserter(text), "{},{},0,{}\n", scheme.name, quantity, value);
  };
  row("servers", result.options.servers);
  row("snapshot_every", result.options.snapshot_every);
  row("snapshot_write_s", result.snapshot_write_s);
  row(fmt::format("server_loss {}", name_of(scheme.server_loss)), 1);
  for (const PolicyResult& policy : scheme.policies) {
    const auto cost = [&](std::string_view quantity, double value) {
      row(fmt::format("{} {}", name_of(policy.policy), quantity), value);
    };
    for (const auto& [name, value] : means_of(policy)) cost(name, value);
    cost("finished", static_cast<double>(policy.finished) / static_cast<double>(policy.jobs));
  }
  return text;
}

}  // namespace

double SchemeResult::staleness_mean() const {
  double sum = 0;
  for (const auto& [staleness, count] : outcome.staleness) sum += static_cast<double>(staleness * count);
  return outcome.updates == 0 ? 0 : sum / static_cast<double>(outcome.updates);
}

uint64_t SchemeResult::staleness_max() const {
  return outcome.staleness.empty() ? 0 : outcome.staleness.rbegin()->first;
}

bool SimulateResult::all_finished() const {
  return std::all_of(schemes.begin(), schemes.end(), [](const SchemeResult& s) { return s.outcome.all_finished; });
}

std::string SimulateResult::text() const {
  if (options.mtbf_hours > 0) return job_line(*this) + losses_table(*this);
  return job_line(*this) + times_table(*this) + staleness_table(*this) + waiting_table(*this);
}

std::string SimulateResult::json() const {
  nlohmann::ordered_json object = {{"workers", step_ms.size()},
                                   {"servers", options.servers},
                                   {"steps", options.steps},
                                   {"num_epochs", options.num_epochs},
                                   {"jitter", options.jitter},
                                   {"latency_ms", options.latency_ms},
                                   {"gbit_per_s", options.bandwidth},
                                   {"bytes", options.bytes},
                                   {"seed", options.seed},
                                   {"step_ms", step_ms}};
  if (options.loss > 0) object["loss"] = options.loss;
  if (options.mtbf_hours > 0) {
    object["snapshot_every"] = options.snapshot_every;
    object["snapshot_write_s"] = snapshot_write_s;
  }
  for (const SchemeResult& scheme : schemes) object["schemes"].push_back(json_of(scheme, options.loss > 0));
  return json_text(object);
}

std::string SimulateResult::csv() const {
  std::string text = "scheme,quantity,index,value\n";
  for (const SchemeResult& scheme : schemes) {
    const auto row = [&](std::string_view quantity, uint64_t index, const auto& value) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{}\n", scheme.name, quantity, index, value);
    };
    const Outcome& outcome = scheme.outcome;
    for (size_t e = 0; e < outcome.epoch_s.size(); e++) row("epoch_s", e, outcome.epoch_s[e]);
    row("updates", 0, outcome.updates);
    row("updates_per_s", 0, outcome.updates_per_s());
    row("gradients", 0, outcome.gradients);
    row("applied", 0, outcome.applied);
    row("late", 0, outcome.late);
    row("messages", 0, outcome.messages);
    row("bytes", 0, outcome.bytes);
    if (scheme.reached_s) row("seconds_to_loss", 0, *scheme.reached_s);
    if (options.loss > 0) row("loss", 0, scheme.last_loss);
    if (options.mtbf_hours > 0) text += losses_csv(*this, scheme);
    for (const auto& [staleness, count] : outcome.staleness) row("staleness", staleness, count);
    for (size_t w = 0; w < outcome.workers.size(); w++) {
      row("steps", w, outcome.workers[w].steps);
      row("computing_s", w, outcome.workers[w].computing_s);
      row("waiting_s", w, outcome.workers[w].waiting_s);
      row("network_s", w, outcome.workers[w].network_s);
    }
  }
  return text;
}

}  // namespace dtrain::plan
