#include "doctor/findings.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <map>

namespace dtrain::doctor {
namespace {

void add_to_rows(const std::string& check, const Finding& finding, std::vector<Row>& rows) {
  const auto same = [&](const Row& row) {
    return row.verdict == finding.verdict && row.found == finding.found && row.remedy == finding.remedy;
  };
  auto row = std::find_if(rows.begin(), rows.end(), same);
  if (row == rows.end()) {
    row = rows.insert(
        row,
        Row{.check = check, .verdict = finding.verdict, .hosts = {}, .found = finding.found, .remedy = finding.remedy});
  }
  row->hosts.push_back(finding.host);
}

Row passing_row(const std::string& check, const std::vector<Finding>& findings, const std::string& summary) {
  Row row{.check = check, .verdict = Verdict::kPass, .hosts = {}, .found = summary, .about_all = true};
  for (const Finding& finding : findings) row.hosts.push_back(finding.host);
  const std::string& first = findings.front().found;
  const auto same = [&](const Finding& finding) { return finding.found == first; };
  if (!first.empty() && std::all_of(findings.begin(), findings.end(), same)) row.found = first;
  return row;
}

}  // namespace

std::string_view word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSkip: return "skip";
    case Verdict::kPass: return "pass";
    case Verdict::kWarn: return "warn";
    case Verdict::kFail: return "fail";
  }
  return "";
}

std::vector<Row> rows_of(const std::string& check, const std::vector<Finding>& findings, const std::string& summary,
                         const std::string& if_none) {
  if (findings.empty()) return single_row(check, Verdict::kSkip, if_none);
  std::vector<Row> rows;
  for (const Finding& finding : findings) {
    if (finding.verdict > Verdict::kPass) add_to_rows(check, finding, rows);
  }
  if (rows.empty()) return {passing_row(check, findings, summary)};
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.verdict > b.verdict; });
  for (Row& row : rows) row.about_all = row.hosts.size() == findings.size();
  return rows;
}

std::vector<Row> single_row(const std::string& check, Verdict verdict, std::string found, std::string remedy) {
  return {Row{.check = check, .verdict = verdict, .hosts = {}, .found = std::move(found), .remedy = std::move(remedy)}};
}

std::vector<Finding> judge_hosts(const Examined& examined, const std::function<bool(const HostReport&)>& takes_part,
                                 const Judge& judge) {
  std::vector<Finding> findings;
  for (const HostReport& host : examined.hosts) {
    if (!host.facts || (takes_part && !takes_part(host))) continue;
    findings.push_back(judge(host, *host.facts));
    findings.back().host = host.name;
  }
  return findings;
}

bool runs_processes(const HostReport& host) {
  return host.workers + host.servers > 0;
}
bool runs_workers(const HostReport& host) {
  return host.workers > 0;
}

std::string most_frequent(const std::vector<std::string>& values) {
  std::map<std::string, size_t> counts;
  for (const std::string& value : values) counts[value]++;
  std::string best = values.front();
  for (const std::string& value : values) {
    if (counts[value] > counts[best]) best = value;
  }
  return best;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  if (names.size() == 1) return names[0];
  const size_t shown = names.size() <= kShown ? names.size() - 1 : kShown - 1;
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<int64_t>(shown));
  const size_t rest = names.size() - shown;
  return fmt::format("{} and {}", fmt::join(first, ", "), rest == 1 ? names.back() : fmt::format("{} others", rest));
}

std::string rate_text(double bytes_per_second) {
  if (bytes_per_second < 1e9) return fmt::format("{:.3g} MB/s", bytes_per_second / 1e6);
  return fmt::format("{:.3g} GB/s", bytes_per_second / 1e9);
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

std::string range_text(std::vector<double> values, std::string (*text)(double)) {
  if (values.empty()) return "";
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const std::string from = text(*least), to = text(*most);
  return from == to ? from : fmt::format("{} to {}", from, to);
}

}  // namespace dtrain::doctor
