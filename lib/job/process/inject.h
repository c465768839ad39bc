// Parses --inject: faults and slowdowns for tests. The transport carries out drop, dup and delay; the step loop carries
// out step-ms; the indexing of record files carries out index-ms; base/step_faults.h carries out kill and stop.
//
//   drop=P  dup=P  delay=A..Bms  step-ms=MS  index-ms=MS, each with an optional @ROLE:RANK; seed=N;
//   kill=ROLE:RANK@step:N  kill=ROLE:RANK@MESSAGE:N  kill=ROLE:RANK@MESSAGE:N+MSms, and the same with stop
//
// MESSAGE is one of fault_messages(). N counts the messages of this name that the process sends or receives, from 1.
// Rules are separated by commas. A rule without @ROLE:RANK applies to all processes; a rule with it replaces the
// general one in the process that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/step_faults.h"
#include "job/process/process_name.h"

namespace dtrain::job {

struct InjectDelay {
  double min_ms = 0, max_ms = 0;  // the delay is drawn uniformly between them
  bool operator==(const InjectDelay&) const = default;
};

// The faults of one process.
struct Faults {
  double drop = 0, dup = 0;            // probability for each message that the process sends, 0 to 1
  InjectDelay delay = {};              // delay of each message that the process sends
  double step_ms = 0;                  // workers only: every step takes at least this long
  double index_ms = 0;                 // workers only: indexing a record file takes at least this long
  std::vector<FailPoint> points = {};  // at most one that kills and one that stops the process
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
  std::vector<Rule<FailPoint>> kill, stop;  // `where` is always set
  std::optional<uint64_t> seed;             // seed of all random draws; nullopt: 0

  [[nodiscard]] bool empty() const { return *this == Inject{}; }
  // True if there are rules about messages. They apply only to messages to servers.
  [[nodiscard]] bool touches_messages() const { return !drop.empty() || !dup.empty() || !delay.empty(); }
  // True if a rule of kill or stop counts messages.
  [[nodiscard]] bool counts_messages() const;
  [[nodiscard]] Faults of(const ProcessName& process) const;
  // All processes that rules name.
  [[nodiscard]] std::vector<ProcessName> processes() const;
  bool operator==(const Inject&) const = default;
};

// The names of messages at which a process can be killed or stopped. A name with _reply is the answer to the call of
// the name before; "data" is any message between a worker and a server, in either direction; the others are messages of
// the control stream. Only the process that calls counts a message: a worker, or a server that talks to the scheduler.
std::vector<std::string> fault_messages();

// Code::kUsage names a rule that is unknown, that is given twice for one process, or whose value is malformed or out of
// range.
Result<> parse_value(std::string_view text, Inject& inject);
std::string format_value(const Inject& inject);

}  // namespace dtrain::job
