// Parses --inject: faults and slowdowns for tests. The transport carries out drop, dup and delay; the step loop carries
// out step-ms and kill; the indexing of record files carries out index-ms.
//
//   drop=P  dup=P  delay=A..Bms  step-ms=MS  index-ms=MS, each with an optional @ROLE:RANK; seed=N;
//   kill=ROLE:RANK@step:N
//
// Rules are separated by commas. A rule without @ROLE:RANK applies to all processes; a rule with it replaces the
// general one in the process that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/process/process_name.h"

namespace dtrain::job {

struct InjectDelay {
  double min_ms = 0, max_ms = 0;  // the delay is drawn uniformly between them
  bool operator==(const InjectDelay&) const = default;
};

// The faults of one process.
struct Faults {
  double drop = 0, dup = 0;              // probability for each message that the process sends, 0 to 1
  InjectDelay delay = {};                // delay of each message that the process sends
  double step_ms = 0;                    // workers only: every step takes at least this long
  double index_ms = 0;                   // workers only: indexing a record file takes at least this long
  std::optional<uint64_t> kill_at = {};  // the process kills itself with SIGKILL at this step
  bool operator==(const Faults&) const = default;
};

struct Inject {
  template <class Value>
  struct Rule {
    Value value = {};
    std::optional<ProcessName> where = {};  // the process to which the rule applies; nullopt: all processes
    bool operator==(const Rule&) const = default;
  };
  std::vector<Rule<double>> drop, dup, step_ms, index_ms;
  std::vector<Rule<InjectDelay>> delay;
  std::vector<Rule<uint64_t>> kill;  // rules with kill=; `where` is always set in them
  std::optional<uint64_t> seed;      // seed of all random draws; nullopt: 0

  [[nodiscard]] bool empty() const { return *this == Inject{}; }
  // True if there are rules about messages. They apply only to messages to servers.
  [[nodiscard]] bool touches_messages() const { return !drop.empty() || !dup.empty() || !delay.empty(); }
  [[nodiscard]] Faults of(const ProcessName& process) const;
  // All processes that rules name.
  [[nodiscard]] std::vector<ProcessName> processes() const;
  bool operator==(const Inject&) const = default;
};

// Code::kUsage names a rule that is unknown, that is given twice for one process, or whose value is malformed or out of
// range.
Result<> parse_value(std::string_view text, Inject& inject);
std::string format_value(const Inject& inject);

}  // namespace dtrain::job
