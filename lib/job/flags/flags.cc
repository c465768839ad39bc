#include "job/flags/flags.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/file.h"
#include "base/nearest.h"
#include "job/flags/allocation.h"
#include "job/flags/environment.h"
#include "job/flags/optimizers.h"
#include "job/flags/presets.h"
#include "job/flags/rows.h"
#include "job/flags/toml_file.h"
#include "job/process/scheduler_lines.h"
#include "job/process/token.h"
#include "job/resolve/augmentation.h"
#include "job/resolve/network_file.h"
#include "job/resolve/reading.h"
#include "job/resolve/resolve.h"
#include "job/spec/job_spec.h"
#include "job/spec/resume.h"

namespace dtrain::job {

namespace {

Result<std::vector<Setting>> toml_settings(std::string_view text, const std::string& name) {
  DT_TRY(const std::vector<TomlSetting> entries, parse_toml(text, name));
  std::vector<Setting> settings;
  for (const TomlSetting& entry : entries) {
    const std::string spelling = (entry.key.size() == 1 ? "-" : "--") + entry.key;
    const std::string place = fmt::format("{}:{}", name, entry.line);
    DT_TRY(std::optional<Setting> setting, training_flags().setting(spelling, entry.value), "reading {}", place);
    if (!setting) continue;
    setting->line = entry.line;
    if (entry.key == "config") return fail(Code::kUsage, "{}: a --config file cannot name another one", place);
    if (!training_flags().rows()[setting->row].repeats) {
      settings.push_back(*setting);
      continue;
    }
    for (const std::string& element : entry.elements) settings.push_back({setting->row, spelling, element, entry.line});
  }
  return settings;
}

Result<std::vector<Setting>> preset_settings(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return toml_settings(preset.toml, fmt::format("preset {}", name));
    names.emplace_back(preset.name);
  }
  return fail(Code::kUsage, "--preset: {}", unknown_choice(name, names).value().message);
}

// The value that the last of `settings` gives to the flag; empty if none does.
std::string last_value(const std::vector<Setting>& settings, std::string_view flag) {
  std::string value;
  for (const Setting& setting : settings) {
    if (training_flags().rows()[setting.row].name == flag) value = setting.value;
  }
  return value == "none" ? "" : value;
}

bool gives(const std::vector<Setting>& settings, std::string_view flag) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& setting) { return training_flags().rows()[setting.row].name == flag; });
}

struct Layer {
  Source source;
  std::string where;  // what has set these values, for messages; empty: the command line
  std::vector<Setting> settings;
};

// All layers, from the weakest to the strongest.
Result<std::vector<Layer>> layers_of(std::vector<Setting> command_line, const Environment& environment) {
  Layer config{Source::kConfig, last_value(command_line, "config"), {}};
  if (!config.where.empty()) {
    DT_TRY(const std::string text, read_file(config.where), "reading --config");
    DT_TRY(config.settings, toml_settings(text, config.where));
  }
  std::string name = last_value(command_line, "preset");
  if (name.empty()) name = last_value(config.settings, "preset");
  Layer preset{Source::kPreset, "preset " + name, {}};
  if (!name.empty()) {
    DT_TRY(preset.settings, preset_settings(name));
  }
  return std::vector<Layer>{
      {Source::kEnvironment, "the environment", environment_settings(training_flags(), environment)},
      std::move(preset),
      std::move(config),
      {Source::kCommandLine, "", std::move(command_line)}};
}

Result<> apply_layer(const Layer& layer, Flags& flags) {
  for (const Setting& setting : layer.settings) {
    Result<> applied = training_flags().apply(setting, flags);
    if (!applied && !layer.where.empty()) {
      const std::string line = setting.line > 0 ? fmt::format(":{}", setting.line) : "";
      applied.error().context.push_back("reading " + layer.where + line);
    }
    DT_TRY_VOID(std::move(applied));
    flags.sources[training_flags().rows()[setting.row].name] = layer.source;
  }
  return {};
}

// --resume DIR: sets the flags of the run in `directory`. The `stronger` layers are applied after it.
Result<> take_resumed_run(std::span<const Layer> stronger, const std::string& directory, Flags& flags) {
  std::vector<std::string> given;
  for (const Layer& layer : stronger) {
    for (const Setting& setting : layer.settings) given.push_back(training_flags().rows()[setting.row].name);
  }
  const bool has_role =
      flags.launch.role != Role::kNone || std::find(given.begin(), given.end(), "role") != given.end();
  DT_TRY(const JobSpec run, read_resumed(directory));
  return take_resumed(run, !has_role, given, flags);
}

// The flags of the running job that a worker joins. The `stronger` layer is applied after it.
Result<> take_running_job(const Layer& stronger, const JobSpec& job, Flags& flags) {
  std::vector<std::string> given;
  for (const Setting& setting : stronger.settings) given.push_back(training_flags().rows()[setting.row].name);
  flags.launch.joins = true;
  return take_resumed(job, true, given, flags);
}

// Applies the layers, the weakest first. `joined`: see parse_flags(). The run to resume is named by the strongest layer
// that has --resume; its flags are applied just before the weakest layer that has it.
Result<> apply_layers(std::span<const Layer> layers, const JobSpec* joined, Flags& flags) {
  size_t first = layers.size();
  std::string directory;
  for (size_t i = layers.size(); i-- > 0;) {
    if (!gives(layers[i].settings, "resume")) continue;
    if (first == layers.size()) directory = last_value(layers[i].settings, "resume");
    first = i;
  }
  for (size_t i = 0; i < layers.size(); i++) {
    const bool resumes = i == first && !directory.empty() && directory != "auto";
    if (resumes) DT_TRY_VOID(take_resumed_run(layers.subspan(i), directory, flags));
    if (joined != nullptr && i + 1 == layers.size()) DT_TRY_VOID(take_running_job(layers[i], *joined, flags));
    DT_TRY_VOID(apply_layer(layers[i], flags));
  }
  return {};
}

// Explains a positional argument: it may be training data given without a flag, or a script for an MXNet launcher.
Error no_positionals(const std::string& first) {
  std::error_code none;
  const bool is_script = first.ends_with(".py") || first.ends_with(".sh");
  const bool is_data = !is_script && (first.ends_with(".rec") || std::filesystem::exists(first, none));
  const std::string advice =
      is_data ? fmt::format("; if it is training data, use --data-{} {}",
                            std::filesystem::is_directory(first, none) ? "dir" : "train", first)
              : ", and dtrain does not run other programs. For MXNet's scripts, see the table \"Coming from MXNet\" in "
                "README.md";
  return {Code::kUsage, fmt::format("'{}' is neither a flag nor a sub-command{}", first, advice), {}};
}

// The user's directory for data that can be computed again.
std::string cache_dir(const Environment& environment) {
  if (const std::string named = environment("XDG_CACHE_HOME").value_or(""); !named.empty()) return named + "/dtrain";
  const std::string home = environment("HOME").value_or("");
  return home.empty() ? "" : home + "/.cache/dtrain";
}

// A directory that this host's processes of the user share.
std::string claim_dir(const Environment& environment) {
  const std::string own = environment("XDG_RUNTIME_DIR").value_or("");
  return own.starts_with('/') ? own : "/tmp";
}

}  // namespace

Source Flags::source(std::string_view name) const {
  const auto found = sources.find(name);
  return found == sources.end() ? Source::kDefault : found->second;
}

namespace {

std::vector<std::string> notes_on(const Flags& flags, const Environment& environment) {
  std::vector<std::string> notes = environment_notes(flags, environment);
  if (flags.device.gpus.has_numbers() && flags.device.count() >= 4 && flags.job.scheme.kv_store == "local") {
    notes.push_back(fmt::format(
        "--kv-store local updates on the first of the {} devices; --kv-store device divides the work among them",
        flags.device.count()));
  }
  if (const std::string note = token_file_note(flags.launch.token_file); !note.empty()) notes.push_back(note);
  for (const std::vector<std::string>& more : {augmentation_notes(flags.job.augment), reading_notes(flags)}) {
    notes.insert(notes.end(), more.begin(), more.end());
  }
  return notes;
}

}  // namespace

Result<Parsed> parse_flags(const std::vector<std::string>& arguments, const Environment& environment,
                           const JobSpec* joined) {
  Parsed parsed;
  parsed.help = asks_for_help(arguments);
  parsed.version = std::find(arguments.begin(), arguments.end(), "--version") != arguments.end();
  if (parsed.help || parsed.version) return parsed;
  Flags& flags = parsed.flags;
  std::vector<std::string> positionals;
  DT_TRY(std::vector<Setting> command_line, training_flags().read(arguments, positionals));
  if (!positionals.empty()) return tl::unexpected(no_positionals(positionals.front()));
  DT_TRY(const std::vector<Layer> layers, layers_of(std::move(command_line), environment));
  DT_TRY_VOID(apply_layers(layers, joined, flags));
  flags.launch.token = environment("DTRAIN_TOKEN").value_or("");
  flags.launch.terminal = environment("TERM").value_or("");
  flags.launch.has_launcher = environment(kLauncherVariable).has_value();
  // If both a --config file and the environment give the token, the environment wins: a launcher passes the token
  // itself to its processes, because other hosts do not have the file that the --config file names.
  if (!flags.launch.token.empty() && flags.source("token-file") < Source::kCommandLine) flags.launch.token_file.clear();
  DT_TRY(flags.launch.host_roles, environment_number(environment, kHostRolesVariable));
  DT_TRY(flags.launch.restart, environment_number(environment, kRestartVariable));
  DT_TRY(flags.launch.returns, environment_number(environment, kReturnsVariable));
  flags.launch.cache_dir = cache_dir(environment);
  flags.launch.claim_dir = claim_dir(environment);
  if (!flags.given("rank")) {
    DT_TRY(flags.launch.rank, environment_rank(environment, flags.launch.role, flags.job.num_workers));
  }
  DT_TRY(const std::string allocation, take_allocation(environment, flags));
  Result<> resolved = resolve(flags);
  if (!resolved) return tl::unexpected(with_variables(std::move(resolved.error()), flags, environment));
  parsed.notes = notes_on(flags, environment);
  if (!allocation.empty()) parsed.notes.push_back(allocation);
  return parsed;
}

std::string help_text() {
  return "The value of a flag comes from the first of these sources that sets it: the\n"
         "command line, the run of --resume DIR, the --config file (before that run if\n"
         "the file contains resume), the --preset, environment variables, the default.\n"
         "A flag shown without a value is a switch: 1 or no value turns it on, 0 turns\n"
         "it off; true, yes and on mean 1, and false, no and off mean 0. Brackets show\n"
         "the range of a number and the default. Times can end in ms, s, m or h\n"
         "(default: s), and whole numbers can end in K, M or G (powers of 1024).\n"
         "--version prints the version.\n" +
         help_lines(training_flags().flag_helps());
}

std::string describe(const Flags& flags) {
  const Flags defaults;
  std::string text;
  for (const Row& row : training_flags().rows()) {
    const std::string value = row.bind.get(flags);
    if (value == row.bind.get(defaults)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", row.name, value);
  }
  return text;
}

std::vector<std::string> without_flags(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& names) {
  const std::vector<Spellings> spellings = training_flags().spellings();
  std::vector<Spellings> unwanted;
  for (const std::string& name : names) {
    const Result<size_t> row = training_flags().find((name.size() == 1 ? "-" : "--") + name);
    DT_CHECK(row, "no flag '{}'", name);
    unwanted.push_back(spellings[*row]);
  }
  Result<CommandLine> line = read_command_line(unwanted, arguments);
  // If the arguments cannot be read, they are returned unchanged, and parse_flags reports the error.
  if (!line) return arguments;
  return std::move(line->extras);
}

bool uses_norms(const OptimizerFlags& flags) {
  const bool by_strategy = optimizer_name(flags.optimizer) == "lbsgd" && flags.warmup_strategy == WarmupStrategy::kLars;
  return by_strategy || optimizer_kind(flags.optimizer).uses_norms;
}

int64_t accumulated_updates(const JobFlags& flags) {
  const int64_t samples = flags.batch_size * flags.num_workers;
  return flags.optimizer.macrobatch_size == 0 ? 1 : (flags.optimizer.macrobatch_size + samples - 1) / samples;
}

Store store_of(const JobFlags& flags) {
  Store store = store_by_name(flags.scheme.kv_store);
  if (flags.scheme.update_on == UpdateOn::kStore) store.update = Update::kStore;
  if (flags.scheme.update_on == UpdateOn::kWorker || uses_norms(flags.optimizer)) store.update = Update::kWorker;
  return store;
}

std::string default_run_dir(const Flags& flags, std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", &utc);
  return fmt::format("runs/{}-{}", network_label(flags.job.network.network), time);
}

}  // namespace dtrain::job
