#include "observe/report/tables.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/duration_text.h"
#include "base/printable.h"
#include "observe/charts/svg.h"
#include "observe/charts/ticks.h"
#include "observe/report/markup.h"
#include "observe/slow.h"

namespace dtrain::observe {
namespace {

using nlohmann::json;

struct Row {
  std::string name;
  std::vector<std::string> cells;  // the cells of the row as HTML, one for each run
};

std::string table_of(std::string_view caption, std::span<const Run> runs, const std::vector<Row>& rows) {
  std::string html = scrolled(caption) + fmt::format("<table><caption>{}</caption><thead><tr><td></td>", caption);
  for (const Run& run : runs) html += fmt::format("<th scope=\"col\">{}</th>", cell(run.name));
  html += "</tr></thead><tbody>\n";
  for (const Row& row : rows) {
    const bool is_empty =
        std::all_of(row.cells.begin(), row.cells.end(), [](const auto& text) { return text == kNone; });
    if (is_empty) continue;
    html += fmt::format("<tr><th scope=\"row\">{}</th>", cell(row.name));
    for (const std::string& text : row.cells) html += fmt::format("<td>{}</td>", text);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

using TextOfRun = std::function<std::string(const Run&)>;

void add_row(std::vector<Row>& rows, std::span<const Run> runs, const std::string& name, const TextOfRun& value) {
  Row row{.name = name, .cells = {}};
  for (const Run& run : runs) row.cells.push_back(value(run));
  rows.push_back(std::move(row));
}

// The value of `key` in summary.json or, if it is missing there, of `setting` in the JobSpec.
TextOfRun fact(const char* key, const char* setting = "") {
  return [key, setting](const Run& run) -> std::string {
    if (run.summary.is_object()) {
      const auto found = run.summary.find(key);
      if (found != run.summary.end() && found->is_string()) return cell(found->get<std::string>());
      if (found != run.summary.end() && found->is_number()) return cell(fmt::format("{}", found->get<double>()));
    }
    const auto found = run.settings.find(setting);
    return found == run.settings.end() ? kNone : cell(found->second);
  };
}

// The words to append to numbers from summary.json, because it describes only the process that ended the run.
const char* since_when(const Run& run) {
  return run.resumptions.empty() ? "" : " since the run was resumed";
}

std::string number_text(std::optional<double> value, int digits) {
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value, digits) : kNone;
}

// The latest value of a metric at the end of an epoch, averaged over all workers.
std::optional<double> last_of(const Run& run, const std::string& metric) {
  double sum = 0;
  int64_t count = 0;
  for (const int64_t rank : run.workers_with(metric, true)) {
    const double value = run.curve({metric, true, "worker", rank})->last().value;
    if (std::isfinite(value)) sum += value, count++;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

TextOfRun accuracy(const char* key, const char* metric) {
  return [key, metric](const Run& run) {
    const std::optional<double> value = run.summary_number(key);
    return number_text(value ? value : last_of(run, metric), 4);
  };
}

std::string best_accuracy(const Run& run) {
  std::optional<double> best = run.summary_number("best_validation_accuracy");
  for (const int64_t rank : run.workers_with("validation_accuracy", true)) {
    const double value = run.curve({"validation_accuracy", true, "worker", rank})->highest();
    if (std::isfinite(value)) best = std::max(best.value_or(value), value);
  }
  return number_text(best, 4);
}

std::string throughput(const Run& run) {
  if (const std::optional<double> speed = run.summary_number("samples_per_s")) {
    return fmt::format("{} samples/s{}", short_number(*speed), since_when(run));
  }
  std::optional<double> speed;
  for (const int64_t rank : run.workers_with("samples_per_s", false)) {
    const double mean = run.curve({"samples_per_s", false, "worker", rank})->mean();
    if (std::isfinite(mean)) speed = speed.value_or(0) + mean;
  }
  return speed ? short_number(*speed) + " samples/s" : kNone;
}

std::string time_text(double seconds) {
  if (!(seconds < 1e9)) return kNone;
  if (seconds < 600) return cell(duration_text(std::chrono::duration<double>(seconds)));
  const auto minutes = static_cast<int64_t>(seconds / 60);
  return minutes < 120 ? fmt::format("{} min", minutes) : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string duration(const Run& run) {
  const std::optional<double> of_last = run.summary_number("seconds");
  std::optional<double> seconds = of_last;
  for (const auto& [rank, wall] : run.wall_seconds) seconds = std::max(seconds.value_or(0), wall);
  if (!seconds) {
    for (const auto& [key, curve] : run.curves) {
      if (std::isfinite(curve.last().at.seconds)) seconds = std::max(seconds.value_or(0), curve.last().at.seconds);
    }
  }
  if (!seconds) return kNone;
  if (run.resumptions.empty() || !of_last) return time_text(*seconds);
  return fmt::format("{}, of which {}{}", time_text(*seconds), time_text(*of_last), since_when(run));
}

// How all workers spent the time of their steps. nullopt: summary.json does not contain it.
std::optional<TimeShares> time_shares_of(const Run& run) {
  if (!run.summary.is_object() || !run.summary.contains("time_shares")) return std::nullopt;
  const json& shares = run.summary["time_shares"];
  const auto number = [&](const char* key) { return shares.is_object() ? shares.value(key, json()) : json(); };
  const json data_wait = number("data_wait"), compute = number("compute"), push = number("push"),
             pull_wait = number("pull_wait");
  if (!data_wait.is_number() || !compute.is_number() || !push.is_number() || !pull_wait.is_number()) {
    return std::nullopt;
  }
  return TimeShares{data_wait.get<double>(), compute.get<double>(), push.get<double>(), pull_wait.get<double>()};
}

// The share over all workers or, if it is missing, the number that summary.json has for the first worker.
TextOfRun waiting_share(double TimeShares::*of_all, const char* of_first) {
  return [of_all, of_first](const Run& run) -> std::string {
    std::optional<double> value = run.summary_number(of_first);
    if (const std::optional<TimeShares> shares = time_shares_of(run)) value = (*shares).*of_all;
    return value ? fmt::format("{:.0f} %{}", *value * 100, since_when(run)) : kNone;
  };
}

std::string outcome(const Run& run) {
  const std::optional<double> code = run.summary_number("exit_code");
  if (!code) return run.is_directory ? "no summary.json: the run has not ended, or it was killed" : kNone;
  if (*code == 0) return "completed";
  const auto error = run.summary.find("error");
  const std::string why = error != run.summary.end() && error->is_string() ? error->get<std::string>() : "";
  return fmt::format("exit code {:.0f}{}", *code, why.empty() ? "" : ": " + cell(why));
}

std::string levels(const Run& run) {
  if (!run.summary.is_object() || !run.summary.contains("time_to_accuracy")) return kNone;
  const json& all = run.summary["time_to_accuracy"];
  std::string text;
  if (!all.is_object()) return kNone;
  for (const auto& [set, reached] : all.items()) {
    if (!reached.is_array()) continue;
    for (const json& level : reached) {
      if (!level.is_object() || !level.value("accuracy", json()).is_number() ||
          !level.value("seconds", json()).is_number())
        continue;
      text += fmt::format("{}{} {:g}: {:.1f} s{}", text.empty() ? "" : "<br>", cell(set),
                          level["accuracy"].get<double>(), level["seconds"].get<double>(), since_when(run));
    }
  }
  return text.empty() ? kNone : text;
}

std::string devices(const Run& run) {
  if (!run.summary.is_object() || !run.summary.value("devices", json()).is_array()) return kNone;
  std::map<std::string, int> counts;
  for (const json& device : run.summary["devices"]) {
    if (device.is_string()) counts[device.get<std::string>()]++;
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", count > 1 ? fmt::format("{} x ", count) : "", cell(name));
  }
  return text.empty() ? kNone : text;
}

std::string memory(const Run& run) {
  if (!run.summary.is_object() || !run.summary.value("peak_rss_bytes", json()).is_object()) return kNone;
  std::string text;
  size_t count = 0;
  for (const auto& [process, bytes] : run.summary["peak_rss_bytes"].items()) {
    if (!bytes.is_number() || count++ >= 12) continue;
    text += fmt::format("{}{}: {:.0f} MiB", text.empty() ? "" : "<br>", cell(process), bytes.get<double>() / 1048576);
  }
  return text.empty() ? kNone : text;
}

std::string difference_cell(const Run& run, const std::string& key) {
  const auto found = run.settings.find(key);
  if (found == run.settings.end()) return kNone;
  constexpr size_t kCellBytesMax = 100;
  return markup_text(printable(found->second, kCellBytesMax));
}

// The keys whose values differ between runs. A log contains only some of the settings. So if one of the runs was read
// from a log, a missing setting does not count as a difference.
std::vector<std::string> different_keys(std::span<const Run> runs) {
  const bool all_known =
      std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.is_directory && !run.settings.empty(); });
  std::set<std::string> keys;
  for (const Run& run : runs) {
    for (const auto& [key, value] : run.settings) keys.insert(key);
  }
  const auto differs = [&](const std::string& key) {
    std::set<std::string> values;
    size_t having = 0;
    for (const Run& run : runs) {
      const auto found = run.settings.find(key);
      if (found == run.settings.end()) continue;
      values.insert(found->second);
      having++;
    }
    return values.size() > 1 || (all_known && having < runs.size());
  };
  std::vector<std::string> different;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(different), differs);
  return different;
}

void add_sentences(const json& value, std::vector<std::string>& sentences) {
  if (value.is_string() && !value.get<std::string>().empty()) sentences.push_back(value.get<std::string>());
  if (value.is_object() && value.contains("text")) add_sentences(value["text"], sentences);
  if (!value.is_array()) return;
  for (const json& part : value) add_sentences(part, sentences);
}

// Names the worker whose time summary.json contains: worker 0, or the only worker.
const char* whose_time(const Run& run) {
  return run.summary_number("workers").value_or(1) > 1 ? "worker 0's" : "the";
}

std::string data_sentence(const Run& run) {
  const auto limit = run.summary.find("data_limit");
  const std::optional<double> waited = run.summary_number("wait_data_share");
  if (limit == run.summary.end() || !waited) return {};
  const char* const whose = whose_time(run);
  if (limit->is_null()) {
    return fmt::format("Data is not the limit: {:.0f} % of {} time was spent waiting for batches.", *waited * 100,
                       whose);
  }
  if (!limit->is_string()) return {};
  std::string text =
      fmt::format("Data is the limit: {:.0f} % of {} time was spent waiting for batches", *waited * 100, whose);
  const std::string stage = limit->get<std::string>();
  if (stage != "unknown") text += fmt::format("; the stage '{}' takes most of the decode threads' time", stage);
  if (const std::optional<double> busy = run.summary_number("decoders_busy_share"))
    text += fmt::format(", which were busy for {:.0f} %", *busy * 100);
  return text + ". More decode threads (--data-nthreads) or images that decode faster help.";
}

// How all workers spent their time or, if that is not known, how long the first worker waited for others.
std::string time_sentence(const Run& run) {
  if (const std::optional<TimeShares> shares = time_shares_of(run)) return time_shares_text(*shares);
  const std::optional<double> network = run.summary_number("wait_network_share");
  if (!network || *network <= 0.05) return {};
  return fmt::format("{:.0f} % of {} time was spent waiting for other devices and processes.", *network * 100,
                     whose_time(run));
}

std::vector<std::string> slow_sentences(const Run& run) {
  std::vector<std::string> sentences;
  if (run.summary.is_object()) {
    for (const char* key : {"slow", "advice"}) {
      if (run.summary.contains(key)) add_sentences(run.summary[key], sentences);
    }
    sentences.push_back(data_sentence(run));
    sentences.push_back(time_sentence(run));
    std::erase(sentences, "");
    if (!sentences.empty() && !run.resumptions.empty()) {
      sentences.emplace_back("These figures cover only the time since the run was resumed.");
    }
  }
  return sentences;
}

std::string list_of(const std::vector<std::string>& sentences) {
  std::string html = "<ul>\n";
  for (const std::string& sentence : sentences)
    html += fmt::format("<li>{}</li>\n", markup_text(printable(sentence, 1000)));
  return html + "</ul>\n";
}

std::string messages_of(const Run& run) {
  if (run.messages.empty()) return "<p>There are no warnings or errors in the logs.</p>\n";
  std::string html = scrolled("Warnings and errors") +
                     "<table><caption>Warnings and errors in the logs; if lines differ only in numbers, only the first "
                     "is shown</caption><thead><tr><th scope=\"col\">kind</th><th scope=\"col\">process</th><th "
                     "scope=\"col\">lines</th><th scope=\"col\">text</th></tr></thead><tbody>\n";
  for (const LogMessage& message : run.messages) {
    html += fmt::format("<tr><td class=\"{}\">{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n",
                        message.is_error ? "bad" : "warn", message.is_error ? "error" : "warning", cell(message.node),
                        message.count, markup_text(message.text));
  }
  html += "</tbody></table></div>\n";
  if (run.messages_left_out != 0) html += fmt::format("<p>{} more lines are not shown.</p>\n", run.messages_left_out);
  return html;
}

}  // namespace

std::string result_table(std::span<const Run> runs) {
  std::vector<Row> rows;
  add_row(rows, runs, "network", fact("network", "network"));
  add_row(rows, runs, "kv-store", fact("store", "kv-store"));
  add_row(rows, runs, "workers", fact("workers", "num-workers"));
  add_row(rows, runs, "servers", fact("servers", "num-servers"));
  add_row(rows, runs, "batch size of a worker", fact("", "batch-size"));
  add_row(rows, runs, "learning rate at the start", fact("", "lr"));
  add_row(rows, runs, "finished epochs", fact("epochs"));
  add_row(rows, runs, "training accuracy, last epoch", accuracy("train_accuracy", "train_accuracy"));
  add_row(rows, runs, "validation accuracy, last epoch", accuracy("validation_accuracy", "validation_accuracy"));
  add_row(rows, runs, "validation accuracy, best", best_accuracy);
  add_row(rows, runs, "time to accuracy", levels);
  add_row(rows, runs, "throughput of the job", throughput);
  add_row(rows, runs, "duration", duration);
  add_row(rows, runs, "waiting for data", waiting_share(&TimeShares::data_wait, "wait_data_share"));
  add_row(rows, runs, "waiting for weights", waiting_share(&TimeShares::pull_wait, "wait_network_share"));
  add_row(rows, runs, "outcome", outcome);
  return table_of("What ran, and how it ended", runs, rows);
}

std::string difference_table(std::span<const Run> runs) {
  if (runs.size() < 2) return {};
  std::vector<Row> rows;
  for (const std::string& key : different_keys(runs)) {
    add_row(rows, runs, key, [&](const Run& run) { return difference_cell(run, key); });
  }
  if (rows.empty()) {
    const bool tell = std::all_of(runs.begin(), runs.end(), [](const Run& run) { return !run.settings.empty(); });
    return tell ? "<p>The runs have the same settings.</p>\n" : "<p>Not all of the files state the settings.</p>\n";
  }
  return table_of("Settings in which the runs differ", runs, rows);
}

std::string staleness_table(std::span<const Run> runs) {
  std::string html;
  for (const Run& run : runs) {
    std::string rows;
    for (const auto& [key, curve] : run.curves) {
      if (key.metric != "staleness_mean" || key.role != "server") continue;
      const Curve* most = run.curve({"staleness_max", key.of_epochs, "server", key.rank});
      rows += fmt::format("<tr><th scope=\"row\">{}server {}</th><td>{}</td><td>{}</td></tr>\n",
                          runs.size() > 1 ? cell(run.name) + ", " : "", key.rank, number_text(curve.last().value, 2),
                          most == nullptr ? kNone : number_text(most->last().value, 0));
    }
    html += rows;
  }
  if (html.empty()) return {};
  return scrolled("Staleness") +
         "<table><caption>Staleness of the updates: 1 means that no other update came between a "
         "worker's pull and its push</caption><thead><tr><td></td><th scope=\"col\">mean</th><th "
         "scope=\"col\">largest</th></tr></thead><tbody>\n" +
         html + "</tbody></table></div>\n";
}

std::string slow_section(std::span<const Run> runs) {
  std::string html;
  for (const Run& run : runs) {
    const std::vector<std::string> sentences = slow_sentences(run);
    if (!sentences.empty()) html += heading(runs, run) + list_of(sentences);
  }
  return html.empty() ? "<p>The files do not state this.</p>\n" : html;
}

std::string environment_table(std::span<const Run> runs) {
  std::vector<Row> rows;
  add_row(rows, runs, "path", [](const Run& run) { return cell(run.path); });
  add_row(rows, runs, "job", fact("job"));
  add_row(rows, runs, "hash of the JobSpec", fact("job_hash"));
  add_row(rows, runs, "build", fact("build"));
  add_row(rows, runs, "devices", devices);
  add_row(rows, runs, "data type", fact("dtype", "dtype"));
  add_row(rows, runs, "hosts", fact("", "hostfile"));
  add_row(rows, runs, "working directory", fact("", "working-directory"));
  add_row(rows, runs, "largest memory", memory);
  return table_of("Where it ran", runs, rows);
}

std::string message_section(std::span<const Run> runs) {
  std::string html;
  for (const Run& run : runs) {
    html += heading(runs, run) + messages_of(run);
    if (!run.problems.empty()) html += "<p>Files that could not be read completely:</p>\n" + list_of(run.problems);
  }
  return html;
}

}  // namespace dtrain::observe
