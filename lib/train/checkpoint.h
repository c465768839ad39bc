// Checkpoint files: PREFIX-symbol.json, PREFIX-%04d.params and PREFIX-%04d.states (the number is the count of finished
// epochs), and within an epoch PREFIX-last.params and PREFIX-last.states. Only rank 0 writes and reads them. For the
// formats see docs/formats.md, "Checkpoints" and "Optimizer states".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tensor/ndarray_file.h"
#include "tensor/parameters.h"
#include "train/checkpoint_claim.h"
#include "train/checkpoint_header.h"

namespace dtrain::train {

// The suffix under which states are kept next to the regular file while a checkpoint is being replaced.
inline constexpr std::string_view kSpareSuffix = ".new";

// Names one checkpoint of a prefix.
struct CheckpointName {
  std::string prefix;
  std::optional<int64_t> epoch;  // number of finished epochs, as in the file names; nullopt: the checkpoint PREFIX-last

  [[nodiscard]] std::string params_path() const { return stem() + ".params"; }
  [[nodiscard]] std::string states_path() const { return stem() + ".states"; }
  [[nodiscard]] std::string stem() const;
};

// The content to write, borrowed.
struct CheckpointContent {
  const std::string& symbol;             // content of PREFIX-symbol.json
  const ParameterView& view;             // weights and statistics
  const std::vector<NamedArray>& slots;  // the optimizer state, named "PARAMETER:SLOT"
  // The header to write; its checksums are ignored, because write_checkpoint computes them.
  const CheckpointHeader& header;
  bool with_states = true;  // whether to write .states; false: the .states of an earlier run are removed
};

// Once a checkpoint of this name exists, a complete one is on disk at every moment: the earlier or the new one, with
// weights and states of the same step. This holds whichever call fails and whenever the process ends, even several
// times in a row. `claim`: if it is given, the files are put in place only while it holds. `fault`: see AtomicFile; it
// is also called for the renames of .states.
Result<> write_checkpoint(const CheckpointName& name, const CheckpointContent& content,
                          const AtomicFile::Fault& fault = nullptr, CheckpointClaim* claim = nullptr);

// Writes only the weights and the symbol file, as PREFIX-best. Training cannot continue from it, because it has no
// position.
std::string best_params_path(const std::string& prefix);
Result<> write_best(const std::string& prefix, const std::string& symbol, const ParameterView& view,
                    const AtomicFile::Fault& fault = nullptr, CheckpointClaim* claim = nullptr);

// Removes those files of a checkpoint that exist.
void remove_checkpoint(const CheckpointName& name);

struct Checkpoint {
  std::vector<NamedArray> parameters;  // arrays with the prefix "arg:"
  std::vector<NamedArray> statistics;  // arrays with the prefix "aux:"
  // Arrays that may be parameters or statistics; only the network shows which they are.
  std::vector<NamedArray> without_prefix;
  // The header of the .states; nullopt: there is no .states (a foreign checkpoint).
  std::optional<CheckpointHeader> header;
  std::vector<NamedArray> slots;
};

// Code::kNotFound if there is no .params; kData if a file is damaged or the two files do not belong together. The error
// names the file and the reason.
Result<Checkpoint> read_checkpoint(const CheckpointName& name);

// Reads a .params file alone, without looking for states.
Result<Checkpoint> read_weights(const std::string& params_path);

// Finds the header among the arrays of a `.states` file. Code::kData if the arrays are damaged or do not come from such
// a file.
Result<CheckpointHeader> header_of(const std::vector<StoredArray>& arrays);

// Returns the most advanced checkpoint of `prefix`, or nullopt if there is none. Code::kData if PREFIX-last, which must
// be read to compare positions, is damaged.
Result<std::optional<CheckpointName>> newest_checkpoint(const std::string& prefix);

}  // namespace dtrain::train
