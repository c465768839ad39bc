// Process flags that a run stores next to its JobSpec, so that `dtrain --resume DIR` needs no other flags: the location
// of the data, the devices, how often to save. Processes do not compare them when they join.
//
// Relative paths are stored as they were given, together with the working directory. A run that is resumed in that
// directory gets the same command line; one that is resumed elsewhere gets absolute paths.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags/rows.h"

namespace dtrain::job {

struct Flags;

struct Remembered {
  std::string directory = {};  // the working directory; empty: nothing was stored
  // Values of the flags, keyed by flag, in the form that --flag takes.
  std::map<std::string, std::string, std::less<>> values = {};

  // The value of a path flag; "" if no value was stored, or if the stored value is "none".
  [[nodiscard]] std::string path_of(std::string_view flag) const;
};

// The key of the path of the symbol file that --network names. It is stored like a flag of the process.
inline constexpr std::string_view kNetworkFile = "network-file";

// --keep of the run; 0 (keep all checkpoints) if the run's version did not store it.
int64_t checkpoints_kept(const Remembered& run);

// The flags of training, and kNetworkFile.
const std::vector<Row>& rows_that_may_be_stored();

// True if a run stores the value of this flag. False for flags of the job, and for flags that concern one start
// (--dry-run) or one process (--rank), or that may hold a secret (--env).
bool is_remembered(std::string_view flag);

// The value that a flag had in a run whose file does not mention it. Covers flags that older versions did not store,
// and flags whose default has changed since. Runs store them even if they were not given, so their absence shows that
// an older version wrote the file. Nullopt: the flag is not one of these, and had its present default. A change that
// adds a flag of the job, or changes the default of a remembered one, must add the old meaning here.
std::optional<std::string> former_value(std::string_view flag);

// Collects what is to be stored from resolved flags. `directory` is the current directory, absolute.
Remembered remember(const Flags& flags, const std::string& directory);

// Sets the stored flags, with source kResumed. `directory` is the current directory. `given` names the flags that are
// applied after this; stored flags that contradict them (--gpus and --cpus) are left out. Code::kUsage: the flag does
// not accept the stored value.
Result<> recall(const Remembered& run, const std::string& directory, const std::vector<std::string>& given,
                Flags& flags);

// The recalled flags as arguments, for the processes that a launcher starts.
std::vector<std::string> recalled_arguments(const Flags& flags);

// Returns `value` with its relative paths made absolute if `flag` takes paths, else unchanged. Paths of data files are
// relative to `data_dir`, and stay unchanged unless it is empty; all others are relative to `directory`.
std::string absolute_value(std::string_view flag, const std::string& value, const std::string& directory,
                           const std::string& data_dir);

}  // namespace dtrain::job
