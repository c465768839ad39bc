#include "doctor/report.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <set>

#include "doctor/facts_json.h"
#include "doctor/findings.h"

namespace dtrain::doctor {
namespace {

constexpr size_t kVerdictWidth = 7;
constexpr size_t kHostsWidthMax = 28;
// Minimum width of the texts; if the window leaves less, the lines are longer than the window.
constexpr size_t kTextWidthMin = 30;
constexpr size_t kMatrixHosts = 16;  // maximum number of hosts in a matrix; more do not fit into a window
constexpr size_t kSlowestShown = 10;

// Breaks a text into lines of at most `width` columns, at blanks.
std::vector<std::string> broken(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.size();
    if (width > 0 && end - begin > width) {
      const size_t blank = text.rfind(' ', begin + width);
      end = blank == std::string::npos || blank <= begin ? text.find(' ', begin) : blank;
      end = std::min(end, text.size());
    }
    lines.push_back(text.substr(begin, end - begin));
    begin = std::min(text.size(), end) + 1;
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::string hosts_of(const Row& row) {
  if (row.hosts.empty()) return "";
  if (row.about_all && row.hosts.size() > 1) return fmt::format("{} hosts", row.hosts.size());
  std::string names = some_of(row.hosts);
  if (names.size() <= kHostsWidthMax || row.hosts.size() == 1) return names;
  return fmt::format("{} and {} more", row.hosts.front(), row.hosts.size() - 1);
}

struct Widths {
  size_t check = 5, hosts = 5, columns = 0;
  [[nodiscard]] size_t text_begin() const { return check + 2 + kVerdictWidth + 2 + hosts + 2; }
  [[nodiscard]] size_t text_width() const {
    if (columns == 0) return 0;
    return std::max(kTextWidthMin, columns > text_begin() ? columns - text_begin() : 0);
  }
};

std::string row_text(const Row& row, const Widths& widths) {
  std::string text = fmt::format("{:<{}}  {:<{}}  {:<{}}  ", row.check, widths.check, word_of(row.verdict),
                                 kVerdictWidth, hosts_of(row), widths.hosts);
  std::vector<std::string> lines = broken(row.found, widths.text_width());
  if (!row.remedy.empty()) {
    for (std::string& line : broken("remedy: " + row.remedy, widths.text_width())) lines.push_back(std::move(line));
  }
  const std::string indent(widths.text_begin(), ' ');
  for (size_t i = 0; i < lines.size(); i++) text += (i == 0 ? "" : indent) + lines[i] + "\n";
  return text;
}

using Matrix = std::map<std::pair<size_t, size_t>, std::string>;

// A matrix of the paths. The rows are the hosts at which a path begins, the columns those at which it ends; both are
// numbered.
std::string matrix_text(const Examined& examined, const std::string& title, const Matrix& cells) {
  std::set<size_t> from, to;
  size_t name = 0;
  for (const auto& [ends, text] : cells) {
    from.insert(ends.first);
    to.insert(ends.second);
    name = std::max(name, examined.hosts[ends.first].name.size());
  }
  std::string text = fmt::format("\n{}\n{:>{}}", title, "", name + 4);
  for (const size_t column : to) text += fmt::format("{:>8}", column);
  text += "\n";
  for (const size_t row : from) {
    text += fmt::format("{:>2}  {:<{}}", row, examined.hosts[row].name, name);
    for (const size_t column : to) {
      const auto cell = cells.find({row, column});
      text += fmt::format("{:>8}", cell == cells.end() ? "-" : cell->second);
    }
    text += "\n";
  }
  return text;
}

// A path in one direction, between the hosts with these indexes.
struct OneWay {
  size_t from = 0, to = 0;
  double speed = 0;
};

std::vector<OneWay> one_ways(const Examined& examined) {
  std::vector<OneWay> all;
  for (const PairSpeed& pair : examined.pairs) {
    if (!pair.speed.error.empty()) continue;
    all.push_back({pair.from, pair.to, pair.speed.out});
    all.push_back({pair.to, pair.from, pair.speed.back});
  }
  return all;
}

std::string slowest_text(const Examined& examined, std::vector<OneWay> all) {
  const size_t shown = std::min(kSlowestShown, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<int64_t>(shown), all.end(),
                    [](const OneWay& a, const OneWay& b) { return a.speed < b.speed; });
  std::string text = fmt::format("\nthe slowest of {} paths (--json prints all)\n", all.size());
  for (size_t i = 0; i < shown; i++) {
    text += fmt::format("{:>12}  {} to {}\n", rate_text(all[i].speed), examined.hosts[all[i].from].name,
                        examined.hosts[all[i].to].name);
  }
  return text;
}

std::string paths_text(const Examined& examined) {
  const std::vector<OneWay> all = one_ways(examined);
  if (all.empty()) return "";
  if (examined.hosts.size() > kMatrixHosts + 1) return slowest_text(examined, all);
  Matrix speeds, round_trips;
  for (const OneWay& way : all) speeds[{way.from, way.to}] = fmt::format("{:.4g}", way.speed / 1e6);
  for (size_t from = 0; from < examined.hosts.size(); from++) {
    for (const Contact& contact : examined.hosts[from].contacts) {
      if (!contact.error.empty()) continue;
      round_trips[{from, static_cast<size_t>(contact.host)}] = fmt::format("{:.3g}", contact.round_trip_s * 1e3);
    }
  }
  return matrix_text(examined, "bandwidth in MB/s, from the row's host to the column's host", speeds) +
         matrix_text(examined, "round-trip time in ms, measured by the row's host (0 is this host)", round_trips);
}

// What was skipped, one reason after the other.
std::string skipped_text(const std::vector<Row>& rows, size_t columns) {
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<std::string>> checks;
  for (const Row& row : rows) {
    if (row.verdict != Verdict::kSkip) continue;
    if (checks[row.found].empty()) reasons.push_back(row.found);
    checks[row.found].push_back(row.check);
  }
  std::string text;
  for (const std::string& reason : reasons) {
    const std::string line = fmt::format("skipped: {}: {}", fmt::join(checks[reason], ", "), reason);
    text += fmt::format("{}\n", fmt::join(broken(line, columns), "\n         "));
  }
  return text.empty() ? text : "\n" + text;
}

struct RowCounts {
  size_t made = 0, skipped = 0, warned = 0, failed = 0, not_examined = 0;
};

RowCounts count(const Examined& examined, const std::vector<Row>& rows) {
  std::map<std::string, Verdict> worst;
  for (const Row& row : rows) worst[row.check] = std::max(worst[row.check], row.verdict);
  RowCounts counts;
  for (const auto& [check, verdict] : worst) {
    (verdict == Verdict::kSkip ? counts.skipped : counts.made)++;
    if (verdict == Verdict::kWarn) counts.warned++;
    if (verdict == Verdict::kFail) counts.failed++;
  }
  for (const HostReport& host : examined.hosts) counts.not_examined += host.facts ? 0 : 1;
  return counts;
}

std::string verdict_line(const RowCounts& counts) {
  std::string text = fmt::format("doctor: {} checks, {} warning{}, {} failed", counts.made, counts.warned,
                                 counts.warned == 1 ? "" : "s", counts.failed);
  if (counts.skipped > 0) text += fmt::format(", {} skipped", counts.skipped);
  if (counts.not_examined > 0) {
    text += fmt::format("; {} host{} could not be examined", counts.not_examined, counts.not_examined == 1 ? "" : "s");
  }
  return text + "\n";
}

nlohmann::ordered_json json_of(const HostReport& host) {
  nlohmann::ordered_json json = {{"name", host.name}, {"workers", host.workers}, {"servers", host.servers}};
  if (host.facts) json["facts"] = nlohmann::json(*host.facts);
  if (!host.error.empty()) json["error"] = host.error;
  return json;
}

nlohmann::ordered_json paths_json(const Examined& examined) {
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  for (const PairSpeed& pair : examined.pairs) {
    const std::string &from = examined.hosts[pair.from].name, &to = examined.hosts[pair.to].name;
    if (!pair.speed.error.empty()) paths.push_back({{"from", from}, {"to", to}, {"error", pair.speed.error}});
  }
  for (const OneWay& way : one_ways(examined)) {
    paths.push_back(
        {{"from", examined.hosts[way.from].name}, {"to", examined.hosts[way.to].name}, {"bytes_per_s", way.speed}});
  }
  return paths;
}

nlohmann::ordered_json contacts_json(const Examined& examined) {
  nlohmann::ordered_json contacts = nlohmann::ordered_json::array();
  for (const HostReport& host : examined.hosts) {
    for (const Contact& contact : host.contacts) {
      nlohmann::ordered_json json = {{"from", host.name},
                                     {"to", examined.hosts[static_cast<size_t>(contact.host)].name}};
      if (contact.error.empty()) {
        json["round_trip_s"] = contact.round_trip_s;
        json["clock_ahead_s"] = contact.clock_ahead_s;
      } else {
        json["error"] = contact.error;
      }
      contacts.push_back(std::move(json));
    }
  }
  return contacts;
}

}  // namespace

std::string table(const Examined& examined, const std::vector<Row>& rows, size_t columns) {
  Widths widths{.columns = columns};
  for (const Row& row : rows) {
    widths.check = std::max(widths.check, row.check.size());
    widths.hosts = std::max(widths.hosts, std::min(hosts_of(row).size(), kHostsWidthMax));
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {:<{}}  found\n", "check", widths.check, "verdict", kVerdictWidth,
                                 "hosts", widths.hosts);
  for (const Row& row : rows) {
    if (row.verdict != Verdict::kSkip) text += row_text(row, widths);
  }
  return text + skipped_text(rows, columns) + paths_text(examined) + "\n" + verdict_line(count(examined, rows));
}

std::string json_line(const Examined& examined, const std::vector<Row>& rows) {
  const RowCounts counts = count(examined, rows);
  nlohmann::ordered_json json = {{"exit_code", exit_code(examined, rows)},
                                 {"checks", counts.made},
                                 {"warnings", counts.warned},
                                 {"failed", counts.failed},
                                 {"skipped", counts.skipped},
                                 {"hosts_not_examined", counts.not_examined}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json one = {
        {"check", row.check}, {"verdict", word_of(row.verdict)}, {"hosts", row.hosts}, {"found", row.found}};
    if (!row.remedy.empty()) one["remedy"] = row.remedy;
    json["rows"].push_back(std::move(one));
  }
  json["hosts"] = nlohmann::ordered_json::array();
  for (const HostReport& host : examined.hosts) json["hosts"].push_back(json_of(host));
  json["contacts"] = contacts_json(examined);
  json["paths"] = paths_json(examined);
  return json_text(json) + "\n";
}

}  // namespace dtrain::doctor
