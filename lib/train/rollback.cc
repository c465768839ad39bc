#include "train/rollback.h"

#include "train/checkpoint.h"
#include "train/other_workers.h"

namespace dtrain::train {
namespace {

constexpr const char* kStays = "the run does not go back, so it will not have the bits of one without a lost worker";

// The header of the newest checkpoint of the run. Nullopt if there is none, if it lacks the state of the optimizer, or
// if another run has written it, which was further.
Result<std::optional<CheckpointHeader>> newest_header(const RollbackSpec& spec) {
  if (spec.save_prefix.empty()) return std::nullopt;
  DT_TRY(const std::optional<CheckpointName> newest, newest_checkpoint(spec.save_prefix));
  if (!newest) return std::nullopt;
  DT_TRY(Checkpoint checkpoint, read_checkpoint(*newest));
  if (checkpoint.header && spec.position.is_before(checkpoint.header->position)) return std::nullopt;
  return std::move(checkpoint.header);
}

}  // namespace

Result<std::optional<Start>> make_rollback(const RollbackSpec& spec, const graph::Graph& graph,
                                           const ParameterView& view, const Log& log) {
  DT_TRY(const std::optional<CheckpointHeader> newest, newest_header(spec), "looking for a checkpoint to go back to");
  StartSpec start = spec.start;
  if (newest) start.from = StartFrom{spec.save_prefix, std::nullopt};
  if (!divide_alike(newest ? newest->job_text : spec.first_job_text, spec.start.job_text)) {
    log.warn("{}: other workers have {}", kStays, newest ? "written its newest checkpoint" : "begun it");
    return std::nullopt;
  }
  if (!newest && spec.began_with_model) {
    log.warn("{}: this worker has no checkpoint, and cannot read the model with which the run began", kStays);
    return std::nullopt;
  }
  DT_TRY(Start made, make_start(start, graph, view, log), "going back");
  return made;
}

}  // namespace dtrain::train
