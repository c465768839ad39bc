#include "job/flags/environment.h"

#include <fmt/ranges.h>

#include "base/printable.h"
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

// Settings from variables whose values need conversion: the flag's name and its setting.
std::vector<std::pair<std::string, Setting>> derived(const Environment& environment) {
  std::vector<std::pair<std::string, Setting>> settings;
  const auto host = environment("DMLC_PS_ROOT_URI"), port = environment("DMLC_PS_ROOT_PORT");
  if (host && port) settings.push_back({"scheduler", {0, "DMLC_PS_ROOT_URI:DMLC_PS_ROOT_PORT", *host + ":" + *port}});
  if (const auto kubernetes = environment("DMLC_USE_KUBERNETES"); kubernetes && *kubernetes != "0") {
    settings.push_back({"bind", {0, "DMLC_USE_KUBERNETES", "0.0.0.0"}});
  }
  if (const auto update = environment("MXNET_UPDATE_ON_KVSTORE"); update && *update == "0") {
    settings.push_back({"update-on", {0, "MXNET_UPDATE_ON_KVSTORE", "worker"}});
  }
  if (const auto percent = environment("PS_DROP_MSG"); percent && !percent->empty() && *percent != "0") {
    settings.push_back({"inject", {0, "PS_DROP_MSG", "drop=" + *percent + "%"}});
  }
  return settings;
}

Result<std::optional<int64_t>> number(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text || text->empty()) return std::nullopt;
  int64_t value = 0;
  const Result<> parsed =
      parse_value(*text, value).and_then([&] { return check_range(*text, *range_of(value), 0, 2 * kProcessesMax); });
  if (!parsed) return fail(Code::kUsage, "{}: {}", name, parsed.error().message);
  return value;
}

void note_role(const Flags& flags, const Environment& environment, std::vector<std::string>& notes) {
  // dmlc's trackers set DMLC_ROLE on purpose for the processes that they start, so no note is needed there.
  if (!environment("DMLC_JOB_CLUSTER").value_or("").empty()) return;
  const bool asks_for_job =
      flags.source("num-workers") == Source::kCommandLine || flags.source("num-servers") == Source::kCommandLine;
  if (flags.source("role") == Source::kEnvironment && flags.launch.role != Role::kNone) {
    notes.push_back(
        fmt::format("the environment variable DMLC_ROLE makes this process a {} of a job that another program starts; "
                    "to {} here, unset the variable",
                    format_value(flags.launch.role), asks_for_job ? "start a job" : "train"));
  }
  if (flags.launch.role == Role::kNone && flags.source("num-workers") == Source::kEnvironment) {
    notes.push_back(fmt::format(
        "the environment variable DMLC_NUM_WORKER makes this a job of {} worker{}; unset it to train in one "
        "process",
        flags.job.num_workers, flags.job.num_workers == 1 ? "" : "s"));
  }
}

// The variables, as "NAME=value", that determine the value of a flag because no stronger source sets it.
std::vector<std::string> variables_in_use(const Flags& flags, const Environment& environment) {
  std::vector<std::string> used;
  for (const Setting& setting : environment_settings(training_flags(), environment)) {
    if (flags.source(training_flags().rows()[setting.row].name) != Source::kEnvironment) continue;
    used.push_back(fmt::format("{}={}", setting.spelling, printable(setting.value)));
  }
  return used;
}

// Adds a note about the variables of a tracker that change the job which this process starts.
void note_job(const Flags& flags, const Environment& environment, std::vector<std::string>& notes) {
  const bool starts_job = flags.launch.role == Role::kNone && flags.distributed();
  if (!starts_job || !environment("DMLC_JOB_CLUSTER").value_or("").empty()) return;
  std::vector<std::string> used = variables_in_use(flags, environment);
  std::erase_if(used, [](const std::string& variable) {
    return !variable.starts_with("DMLC_") || variable.starts_with("DMLC_NUM_WORKER=");
  });
  if (used.empty()) return;
  notes.push_back(fmt::format("this job takes {} from the environment; unset variables that are left from another job",
                              fmt::join(used, " and ")));
}

}  // namespace

Error with_variables(Error error, const Flags& flags, const Environment& environment) {
  const std::vector<std::string> used = variables_in_use(flags, environment);
  if (used.empty()) return error;
  return std::move(error).with(fmt::format("taking {} from the environment", fmt::join(used, " and ")));
}

std::vector<Setting> environment_settings(const FlagTable<Flags>& table, const Environment& environment) {
  std::vector<Setting> settings;
  for (size_t i = 0; i < table.rows().size(); i++) {
    const std::string& name = table.rows()[i].environment;
    const std::optional<std::string> value = name.empty() ? std::nullopt : environment(name);
    if (value && !value->empty()) settings.push_back({i, name, *value});
  }
  for (auto& [flag, setting] : derived(environment)) {
    const Result<size_t> row = table.find("--" + flag);
    DT_CHECK(row, "no flag '{}'", flag);
    setting.row = *row;
    settings.push_back(setting);
  }
  return settings;
}

Result<std::optional<int64_t>> environment_rank(const Environment& environment, Role role, int64_t num_workers) {
  if (role != Role::kWorker && role != Role::kServer) return std::nullopt;
  DT_TRY(const std::optional<int64_t> own,
         number(environment, role == Role::kWorker ? "DMLC_WORKER_ID" : "DMLC_SERVER_ID"));
  if (own) return own;
  // Other trackers number their tasks differently. There, the scheduler assigns ranks in the order of arrival.
  if (environment("DMLC_JOB_CLUSTER").value_or("") != "local") return std::nullopt;
  DT_TRY(std::optional<int64_t> task, number(environment, "DMLC_TASK_ID"));
  if (task && role == Role::kServer) *task -= num_workers;
  return task && *task >= 0 ? task : std::nullopt;
}

Result<int64_t> environment_number(const Environment& environment, const char* name) {
  DT_TRY(const std::optional<int64_t> value, number(environment, name));
  return std::max<int64_t>(0, value.value_or(0));
}

std::vector<std::string> environment_notes(const Flags& flags, const Environment& environment) {
  std::vector<std::string> notes;
  note_role(flags, environment, notes);
  note_job(flags, environment, notes);
  for (const char* name : {"DMLC_PS_VAN_TYPE", "DMLC_PS_WATER_MARK", "DMLC_LOCAL", "MXNET_KVSTORE_SLICE_THRESHOLD",
                           "DLBS_MXNET_SYNTHETIC_DATA_CONTEXT"}) {
    const std::string value = environment(name).value_or("");
    if (value.empty() || value == "0") continue;
    notes.push_back(fmt::format(
        "the environment variable {}={} is ignored, because this version of dtrain does not support it", name, value));
  }
  return notes;
}

}  // namespace dtrain::job
