// The findings of a doctor's check for each host, and the table rows made from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/words.h"
#include "doctor/checks.h"

namespace dtrain::doctor {

struct Finding {
  std::string host = {};
  Verdict verdict = Verdict::kPass;
  std::string found = {};
  std::string remedy = {};
};

// One row if all pass, with `summary`, or with their common finding if all have the same. Otherwise one row for each
// different finding that is not a pass, the worst first. Without findings: a row with `if_none`.
std::vector<Row> rows_of(const std::string& check, const std::vector<Finding>& findings,
                         const std::string& summary = "", const std::string& if_none = "no host could be examined");

// A row that is not about hosts.
std::vector<Row> single_row(const std::string& check, Verdict verdict, std::string found, std::string remedy = {});

// One finding for each examined host that `takes_part` accepts (null: all).
using Judge = std::function<Finding(const HostReport& host, const Facts& facts)>;
std::vector<Finding> judge_hosts(const Examined& examined, const std::function<bool(const HostReport&)>& takes_part,
                                 const Judge& judge);

bool runs_processes(const HostReport& host);  // true for servers or workers of the job
bool runs_workers(const HostReport& host);

// The most frequent value; among equally frequent ones the first. `values` must not be empty.
std::string most_frequent(const std::vector<std::string>& values);

// Names at most a few: "node1", "node1 and node2", "node1, node2 and 96 others".
std::string some_of(const std::vector<std::string>& names);

std::string rate_text(double bytes_per_second);  // "118 MB/s"
std::string seconds_text(double seconds);        // "120 us", "12 ms", "3.1 s"
// "15.6 GiB", or "15.6 GiB to 31.2 GiB" if the smallest and the largest differ.
std::string range_text(std::vector<double> values, std::string (*text)(double));

}  // namespace dtrain::doctor
