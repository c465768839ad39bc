// What a check of the doctor finds on each host, and the conversion of these findings to rows of the table.
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

// If all findings are passes, returns one row, with the text `summary`, or with the text of the findings if it is the
// same for all. Otherwise returns one row for each distinct finding that is not a pass, the worst first. If there are
// no findings, returns one row with the text `if_none`.
std::vector<Row> rows_of(const std::string& check, const std::vector<Finding>& findings,
                         const std::string& summary = "", const std::string& if_none = "no host could be examined");

// Returns a row that does not refer to particular hosts.
std::vector<Row> single_row(const std::string& check, Verdict verdict, std::string found, std::string remedy = {});

// Returns one finding for each examined host for which `takes_part` is true (null: for all examined hosts).
using Judge = std::function<Finding(const HostReport& host, const Facts& facts)>;
std::vector<Finding> judge_hosts(const Examined& examined, const std::function<bool(const HostReport&)>& takes_part,
                                 const Judge& judge);

bool runs_processes(const HostReport& host);  // true if servers or workers of the job run on the host
bool runs_workers(const HostReport& host);

// The most frequent value; if several are equally frequent, the one that occurs first. `values` must not be empty.
std::string most_frequent(const std::vector<std::string>& values);

// Lists only the first few names if there are many: "node1", "node1 and node2", "node1, node2 and 96 others".
std::string some_of(const std::vector<std::string>& names);

std::string rate_text(double bytes_per_second);  // returns a text such as "118 MB/s"
std::string seconds_text(double seconds);        // returns a text such as "120 us", "12 ms" or "3.1 s"
// "15.6 GiB", or "15.6 GiB to 31.2 GiB" if the smallest and the largest value differ.
std::string range_text(std::vector<double> values, std::string (*text)(double));

}  // namespace dtrain::doctor
