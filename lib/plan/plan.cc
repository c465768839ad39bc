#include "plan/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "base/file.h"
#include "base/json.h"
#include "base/words.h"
#include "data/records/sharding_file.h"

namespace dtrain::plan {
namespace {

constexpr int64_t kStepsMax = 200;           // limit on the simulated steps of a worker
constexpr int64_t kMessagesMax = 4'000'000;  // approximate limit on the messages in the simulation of one scheme
constexpr int64_t kStepsMin = 5;
constexpr int64_t kPartitionsShown = 10;

// The number of steps that each worker makes in an epoch of BSP, which is the same for all workers.
int64_t steps_of_epoch(const PlannedJob& job) {
  const auto workers = std::ssize(job.speeds);
  const int64_t samples = job.epoch_samples > 0 ? job.epoch_samples : job.records;
  return data::batches_per_epoch((samples + workers - 1) / workers, job.batch_size);
}

SimulateOptions simulation_of(const Plan& plan, const PlanOptions& options) {
  const PlannedJob& job = plan.job;
  const auto workers = std::ssize(job.speeds);
  std::vector<std::string> step_ms;
  for (const double speed : job.speeds) {
    step_ms.push_back(fmt::format("{:.6f}", 1000 * static_cast<double>(job.batch_size) / speed));
  }
  const int64_t steps_max = std::clamp(kMessagesMax / (2 * workers * job.servers), kStepsMin, kStepsMax);
  return {.workers = workers,
          .servers = job.servers,
          .steps = std::min(steps_of_epoch(job), steps_max),
          .speeds = fmt::format("{}", fmt::join(step_ms, ",")),
          .latency_ms = options.latency_ms,
          .bandwidth = options.bandwidth,
          .bytes = job.bytes,
          .staleness = job.staleness,
          .groups = plan.grouping.group_of,
          .backup = job.backup};
}

Result<std::vector<data::Share>> shares_of(const PlannedJob& job, const sync::Grouping& grouping) {
  std::vector<double> speeds;
  for (const sync::Group group : grouping.group_of) speeds.push_back(grouping.speeds[group]);
  std::vector<data::Share> shares = data::shares_by_speed(job.records, speeds);
  for (size_t rank = 0; rank < shares.size(); rank++) {
    if (shares[rank].size() > 0) continue;
    return fail(Code::kUsage, "worker {} of {} would get none of the {} training records: use fewer workers", rank,
                shares.size(), job.records);
  }
  return shares;
}

std::string vrc_text(const sync::Partition& partition) {
  if (!partition.vrc) return "-";
  return std::isinf(*partition.vrc) ? "inf" : fmt::format("{:.1f}", *partition.vrc);
}

std::string speeds_table(const Plan& plan) {
  size_t width = 4;
  for (const job::WorkerPlace& place : plan.job.places) width = std::max(width, place.host.size());
  std::string text =
      fmt::format("{:>6}  {:<{}}{:>13}{:>7}{:>16}\n", "worker", "host", width, "samples/s", "group", "records");
  for (size_t rank = 0; rank < plan.job.speeds.size(); rank++) {
    text += fmt::format("{:>6}  {:<{}}{:>13.2f}{:>7}{:>16}\n", rank, plan.job.places[rank].host, width,
                        plan.job.speeds[rank], plan.grouping.group_of[rank], plan.shares[rank].size());
  }
  return text;
}

std::string partitions_table(const sync::Grouping& grouping) {
  std::string text = fmt::format("\n{:>6}  {:>17}{:>13}\n", "groups", "(max-min)/mean", "VRC");
  for (const sync::Partition& partition : grouping.by_k) {
    if (partition.k > std::max(kPartitionsShown, grouping.chosen_k)) break;
    text += fmt::format("{:>6}  {:>17.3f}{:>13}{}\n", partition.k, partition.spread, vrc_text(partition),
                        partition.k == grouping.chosen_k ? "  chosen" : "");
  }
  return text;
}

std::string members_text(const Plan& plan) {
  std::string text = "\n";
  for (size_t group = 0; group < plan.grouping.speeds.size(); group++) {
    std::vector<size_t> ranks;
    for (size_t rank = 0; rank < plan.grouping.group_of.size(); rank++) {
      if (plan.grouping.group_of[rank] == group) ranks.push_back(rank);
    }
    text += fmt::format("group {}: worker{} {}; the slowest trains {:.2f} samples/s\n", group,
                        ranks.size() > 1 ? "s" : "", fmt::join(ranks, " "), plan.grouping.speeds[group]);
  }
  return text;
}

std::string epochs_table(const Plan& plan) {
  const double bsp = plan.epoch_s("bsp");
  std::string text = fmt::format("\n{:<16}{:>12}{:>14}\n", "scheme", "s/epoch", "BSP's speed");
  for (const SchemeResult& scheme : plan.simulated.schemes) {
    const double epoch = plan.epoch_s(scheme.name);
    text += fmt::format("{:<16}{:>12.2f}{:>14.2f}\n", scheme.name, epoch, bsp / epoch);
  }
  const SimulateOptions& simulated = plan.simulated.options;
  return text + fmt::format("simulated: {} steps, {} server{}, {:.1f} MB a step, {:g} Gbit/s, {:g} ms\n",
                            simulated.steps, simulated.servers, simulated.servers == 1 ? "" : "s",
                            static_cast<double>(simulated.bytes) / 1e6, simulated.bandwidth, simulated.latency_ms);
}

Result<std::optional<std::string>> text_at(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) return std::nullopt;
  if (!std::filesystem::is_regular_file(status)) return fail(Code::kUsage, "{} exists and is not a file", path);
  DT_TRY(std::string text, read_file(path));
  return text;
}

Result<> check_file(const std::string& path, const char* flag, bool (*is_one)(std::string_view)) {
  DT_TRY(const std::optional<std::string> text, text_at(path));
  if (!text || is_one(*text)) return {};
  return fail(
      Code::kUsage,
      "{} exists but is a different kind of file, so it is not overwritten: move it, or name another file with {}",
      path, flag);
}

bool looks_like_sharding(std::string_view text) {
  const auto lines = std::ssize(word_lines(text));
  return data::parse_sharding_file(text, {.name = {}, .workers = lines, .allow_gaps = true}).has_value();
}

Result<std::string> write_one(const std::string& path, const std::string& text) {
  DT_TRY(const std::optional<std::string> before, text_at(path));
  if (before == text) return fmt::format("{}: unchanged, because it already has this content\n", path);
  DT_TRY_VOID(write_file_atomic(path, text), "writing {}", path);
  return fmt::format("{}: {}\n", path, before ? "replaced" : "written");
}

}  // namespace

double Plan::epoch_s(std::string_view scheme) const {
  for (const SchemeResult& result : simulated.schemes) {
    if (result.name.starts_with(scheme)) return result.outcome.seconds / epochs_simulated;
  }
  DT_CHECK(false, "scheme {} was not simulated", scheme);
  return 0;
}

std::string Plan::groups_text() const {
  return job::format_groups({grouping.group_of.begin(), grouping.group_of.end()}, job.places);
}

std::string Plan::sharding_text() const {
  return data::format_sharding_file(shares, job.records);
}

std::string Plan::expectation() const {
  const double bsp = epoch_s("bsp"), gsp = epoch_s("gsp");
  if (grouping.speeds.size() == 1) {
    return fmt::format(
        "expected: groups bring no gain, so use BSP (dist_sync), which takes {:.2f} s per epoch (simulated); GSP with "
        "one group is the same",
        bsp);
  }
  return fmt::format("expected: GSP is {:.2f} times as fast as BSP (simulated: {:.2f} s per epoch instead of {:.2f} s)",
                     bsp / gsp, gsp, bsp);
}

std::string Plan::text() const {
  return fmt::format("speeds {}\n", job.speeds_from) + speeds_table(*this) + partitions_table(grouping) +
         members_text(*this) + epochs_table(*this) + "\n" + expectation() + "\n";
}

std::string Plan::json() const {
  nlohmann::ordered_json object = {{"speeds_from", job.speeds_from}, {"samples_per_s", job.speeds}};
  auto& hosts = object["hosts"] = nlohmann::ordered_json::array();
  for (const job::WorkerPlace& place : job.places) hosts.push_back(place.host);
  object["group_of"] = grouping.group_of;
  object["group_speeds"] = grouping.speeds;
  auto& borders = object["shares"] = nlohmann::ordered_json::array();
  for (const data::Share& share : shares) borders.push_back({share.begin, share.end});
  for (const sync::Partition& partition : grouping.by_k) {
    const bool finite = partition.vrc && std::isfinite(*partition.vrc);
    object["partitions"].push_back({{"groups", partition.k},
                                    {"spread", partition.spread},
                                    {"vrc", finite ? nlohmann::ordered_json(*partition.vrc) : nullptr}});
  }
  for (const SchemeResult& scheme : simulated.schemes) {
    object["schemes"].push_back({{"scheme", scheme.name}, {"epoch_s", epoch_s(scheme.name)}});
  }
  object["gain"] = epoch_s("bsp") / epoch_s("gsp");
  return json_text(object);
}

Result<Plan> make_plan(const PlannedJob& job, const PlanOptions& options, const ShowLive& show) {
  Plan plan;
  plan.job = job;
  DT_TRY(plan.grouping, sync::group_by_speed(job.speeds, options.grouping));
  DT_TRY(plan.shares, shares_of(job, plan.grouping));
  const SimulateOptions simulation = simulation_of(plan, options);
  DT_TRY(plan.simulated, simulate(simulation, {.line = [](std::string_view) {}, .live = show}),
         "simulating the planned job");
  plan.epochs_simulated = static_cast<double>(simulation.steps) / static_cast<double>(steps_of_epoch(job));
  return plan;
}

Result<> check_plan_files(const PlanFiles& files) {
  DT_TRY_VOID(check_file(files.groups, "--groups-file", job::looks_like_groups));
  return check_file(files.sharding, "--data-sharding-file", looks_like_sharding);
}

Result<std::string> write_plan_files(const Plan& plan, const PlanFiles& files) {
  DT_TRY_VOID(check_plan_files(files));
  DT_TRY(const std::string groups, write_one(files.groups, plan.groups_text()));
  DT_TRY(const std::string sharding, write_one(files.sharding, plan.sharding_text()));
  return groups + sharding;
}

}  // namespace dtrain::plan
