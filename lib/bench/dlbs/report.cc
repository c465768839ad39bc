#include "bench/dlbs/report.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "train/batch_times.h"

namespace dtrain::bench {
namespace {

using Json = DlbsParameters::Json;

// Samples per second. DLBS writes an integer; here a fraction is kept for slow hosts, because DLBS considers 0 a
// failure.
Json rate_of(const DlbsTimes::Part& part) {
  const double rate = part.seconds > 0 ? part.samples / part.seconds : 0;
  return rate >= 1 ? Json(static_cast<int64_t>(rate)) : Json(rate);
}

double mean_ms(const DlbsTimes::Part& part) {
  return 1e3 * part.seconds / static_cast<double>(part.batches_ms.size());
}

// The smallest of the times that is not exceeded by at least the fraction `share` of the times.
double quantile(std::vector<double> times, double share) {
  std::sort(times.begin(), times.end());
  const auto count = static_cast<double>(times.size());
  const auto index = static_cast<size_t>(std::max(0.0, std::ceil(share * count) - 1));
  return times[std::min(index, times.size() - 1)];
}

Json bytes_of(const std::optional<double>& bytes) {
  return bytes ? Json(static_cast<int64_t>(*bytes)) : Json(nullptr);
}

// Requires that all members of `json` exist and are numbers, and that batches_ms is a nonempty list of numbers.
Result<DlbsTimes> times_of(const nlohmann::json& json) {
  const auto number = [&json](const char* name) { return json.at(name).get<double>(); };
  const auto bytes = [&json](const char* name) {
    return json.at(name).is_null() ? std::nullopt : std::optional(json.at(name).get<double>());
  };
  try {
    DlbsTimes times{.job = {number("job_samples"), number("job_seconds"), json.at("slowest_batches_ms")},
                    .own = {number("samples"), number("seconds"), json.at("batches_ms")},
                    .wait_data_s = number("wait_data_s"),
                    .wait_network_s = number("wait_network_s"),
                    .bytes_sent = bytes("bytes_sent"),
                    .bytes_received = bytes("bytes_received")};
    if (!times.own.batches_ms.empty() && !times.job.batches_ms.empty()) return times;
    return fail(Code::kData, "no batch was measured");
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kData, "the file was not written by a run with --time-batches-after: {}", error.what());
  }
}

// The last value of `name` in the log, which is the one that DLBS's parser takes; "discarded" if there is none.
Json last_value(const std::string& log, const std::string& name) {
  const std::string beginning = "__" + name + "__=";
  std::istringstream lines(log);
  Json value(nlohmann::detail::value_t::discarded);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(beginning)) value = parse_json<Json>(line.substr(beginning.size()));
  }
  return value;
}

}  // namespace

Result<DlbsTimes> read_dlbs_times(const std::string& run_dir, int64_t rank) {
  const std::string path = run_dir + "/" + train::batch_times_file(static_cast<uint32_t>(rank));
  DT_TRY(const std::string text, read_file(path), "reading the times of the batches");
  DT_TRY(DlbsTimes times, times_of(parse_json(text)), "reading {}", path);
  return times;
}

DlbsTimes dlbs_times_of(const BenchTrainResult& inference) {
  DlbsTimes::Part part;
  for (const double seconds : inference.batches_s) part.batches_ms.push_back(1e3 * seconds);
  part.seconds = std::accumulate(inference.batches_s.begin(), inference.batches_s.end(), 0.0);
  part.samples = static_cast<double>(inference.batch_size) * static_cast<double>(part.batches_ms.size());
  return {.job = part, .own = part, .bytes_sent = 0, .bytes_received = 0};
}

std::string dlbs_line(const std::string& name, const Json& value) {
  return fmt::format("__{}__={}\n", name, json_text(value));
}

std::string dlbs_header(const DlbsParameters& parameters) {
  std::string text;
  for (const DlbsParameters::Parameter& parameter : parameters.all()) {
    text += dlbs_line(parameter.name, parameter.value);
  }
  return text;
}

std::string dlbs_results(const DlbsTimes& times) {
  const auto own_batches = static_cast<double>(times.own.batches_ms.size());
  const double waits_s = times.wait_data_s + times.wait_network_s;
  const std::vector<double>& batches = times.job.batches_ms;
  const double processed = times.job.samples / static_cast<double>(batches.size());
  std::string text;
  const auto add = [&text](const char* name, const Json& value) { text += dlbs_line(name, value); };
  add("exp.effective_batch", std::llround(processed));
  add("results.time", mean_ms(times.job));
  add("results.throughput", rate_of(times.job));
  add("results.time_min", *std::min_element(batches.begin(), batches.end()));
  add("results.time_median", quantile(batches, 0.5));
  add("results.time_p95", quantile(batches, 0.95));
  add("results.time_max", *std::max_element(batches.begin(), batches.end()));
  add("results.time_data", batches);
  add("results.local.time", mean_ms(times.own));
  add("results.local.throughput", rate_of(times.own));
  add("results.local.time_data", times.own.batches_ms);
  add("results.comm_time", 1e3 * times.wait_network_s / own_batches);
  add("results.data_time", 1e3 * times.wait_data_s / own_batches);
  add("results.compute_time", 1e3 * std::max(0.0, times.own.seconds - waits_s) / own_batches);
  add("results.bytes_sent", bytes_of(times.bytes_sent));
  add("results.bytes_received", bytes_of(times.bytes_received));
  add("results.status", "ok");
  return text;
}

std::string dlbs_failure(const std::string& why) {
  return dlbs_line("results.status", "failure") + dlbs_line("exp.status", "failure") + dlbs_line("exp.status_msg", why);
}

std::string dlbs_clock(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  return fmt::format("{:%Y-%m-%d:%H:%M:%S}:{:03}", fmt::localtime(seconds), ms);
}

bool dlbs_succeeded(const std::string& log) {
  const Json rate = last_value(log, "results.throughput"), status = last_value(log, "exp.status");
  return rate.is_number() && rate > 0 && status == "ok";
}

Result<DlbsLog> DlbsLog::create(const std::string& path) {
  DlbsLog log;
  if (path.empty() || path == "/dev/stdout") return log;
  log.path_ = path;
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (!directory.empty()) DT_TRY_VOID(make_directories(directory), "creating the directory of exp.log_file");
  log.file_.open(path, std::ios::trunc);
  if (log.file_.is_open()) return log;
  return fail(Code::kUsage, "exp.log_file: '{}' cannot be written", path);
}

Result<> DlbsLog::write(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (path_.empty()) return {};
  file_ << text << std::flush;
  if (file_.good()) return {};
  return fail(Code::kData, "exp.log_file: '{}' cannot be written; the disk may be full", path_);
}

}  // namespace dtrain::bench
