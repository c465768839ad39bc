// The flags of a process that a run writes down beside its JobSpec, so that `dtrain --resume DIR` needs no others:
// where the data lies, the devices, how often to save. They are not part of what processes compare when they join.
//
// Relative paths are kept as they were given, with the directory in which they were meant: a run that is resumed in
// that directory gets the same command line, and one that is resumed elsewhere gets absolute paths.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

struct Remembered {
  std::string directory = {};                                   // empty: the run wrote nothing down
  std::map<std::string, std::string, std::less<>> values = {};  // by flag, as --flag takes them

  // The value of a flag whose default is empty or "none"; "" if it was not given.
  [[nodiscard]] std::string path_of(std::string_view flag) const;
};

// Whether a run writes the value of this flag of the process down. Not what belongs to one start (--dry-run), to one
// process (--rank), or is or may hold a secret (--env).
bool is_remembered(std::string_view flag);

// What the flags, which are resolved, say beside the job. `directory`: the current one, absolute.
Remembered remember(const Flags& flags, const std::string& directory);

// Sets the flags that the run wrote down; their source is kResumed. `directory`: the current one. `given`: the flags of
// the command line, which come later: what contradicts them is left out. Code::kUsage: a value that the flag refuses.
Result<> recall(const Remembered& run, const std::string& directory, const std::vector<std::string>& given,
                Flags& flags);

// The recalled flags as arguments, for the processes that a launcher starts.
std::vector<std::string> recalled_arguments(const Flags& flags);

// `value` of `flag` with its relative paths made absolute, if the flag is one of paths. `data_dir`: what paths of the
// data are relative to; empty: the directory.
std::string absolute_value(std::string_view flag, const std::string& value, const std::string& directory,
                           const std::string& data_dir);

}  // namespace dtrain::job
