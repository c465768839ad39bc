// Checkpoints: PREFIX-symbol.json, PREFIX-%04d.params, PREFIX-%04d.states (the number counts finished epochs), and in
// mid-epoch PREFIX-last.params, PREFIX-last.states. formats.md 5.4, 5.5. Rank 0 alone writes and reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tensor/parameters.h"
#include "train/checkpoint_header.h"

namespace dtrain::train {

// One of the checkpoints of a prefix.
struct CheckpointName {
  std::string prefix;
  std::optional<int64_t> epoch;  // nothing: PREFIX-last

  [[nodiscard]] std::string params_path() const { return stem() + ".params"; }
  [[nodiscard]] std::string states_path() const { return stem() + ".states"; }
  [[nodiscard]] std::string stem() const;
};

// What is to be written, borrowed.
struct CheckpointContent {
  const std::string& symbol;             // the text of PREFIX-symbol.json
  const ParameterView& view;             // weights and statistics
  const std::vector<NamedArray>& slots;  // "PARAMETER:SLOT", of the optimizer
  const CheckpointHeader& header;        // its checksums are filled in here
  bool with_states = true;               // false: no .states, and none of an earlier run stays
};

// At every moment a complete checkpoint of that name is on disk, once there was one: the earlier or the new one, with
// weights and states of the same step, whichever calls fail and wherever the process ends, also several times in a row.
// `fault`: see AtomicFile; called for the renames of .states too.
Result<> write_checkpoint(const CheckpointName& name, const CheckpointContent& content,
                          const AtomicFile::Fault& fault = nullptr);

struct Checkpoint {
  std::vector<NamedArray> parameters;      // "arg:", and names without a prefix
  std::vector<NamedArray> statistics;      // "aux:", and names of moving statistics without a prefix
  std::optional<CheckpointHeader> header;  // nothing: there was no .states (a foreign checkpoint)
  std::vector<NamedArray> slots;
};

// Code::kNotFound without a .params, kData for files that are damaged or do not belong together; named, with the
// reason.
Result<Checkpoint> read_checkpoint(const CheckpointName& name);

// The checkpoint of `prefix` that is furthest in its run; nothing if there is none. Code::kData if PREFIX-last, which
// must be read for that, is damaged.
Result<std::optional<CheckpointName>> newest_checkpoint(const std::string& prefix);

}  // namespace dtrain::train
