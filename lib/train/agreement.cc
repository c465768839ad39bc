#include "train/agreement.h"

#include <algorithm>
#include <utility>

#include "train/rest_text.h"

namespace dtrain::train {
namespace {

// The message with which rank 0 tells the other workers where the run starts.
job::RunStart run_start(const OwnStart& own, size_t workers) {
  const Start& start = own.start;
  job::RunStart told{.position = to_text(start.position),
                     .rest = to_text(start.rest),
                     .rate_factor = start.rate_factor,
                     .workers = std::vector<job::WorkerState>(workers),
                     .best = {},
                     .kept_epochs = {},
                     .began_with_model = own.began_with_model};
  if (start.best) told.best = job::BestEpoch{start.best->epoch, start.best->accuracy};
  if (own.continues_checkpoints) told.kept_epochs = start.kept_epochs;
  const bool has_own_steps = start.worker_steps.size() == workers;
  for (size_t rank = 0; rank < workers; rank++) {
    job::WorkerState& worker = told.workers[rank];
    worker.steps = has_own_steps ? start.worker_steps[rank] : start.position.own_steps;
    if (rank < start.loss_scales.size()) {
      worker.loss_scale = start.loss_scales[rank].scale;
      worker.good_steps = start.loss_scales[rank].good_steps;
    }
    const bool fits = rank < start.metric_sums.size() && start.metric_sums[rank].size() == own.metric_sums;
    // If the sizes differ, the checkpoint was written with other metrics, and its sums are not used.
    if (fits) worker.metric_sums = start.metric_sums[rank];
  }
  return told;
}

// What `start` says to the worker with this index in it.
Result<AgreedStart> agreed_start(job::RunStart& start, size_t index, const OwnStart& own) {
  job::WorkerState& mine = start.workers[index];
  if (mine.metric_sums.empty()) mine.metric_sums.assign(own.metric_sums, 0.0);
  DT_TRY(Position position, parse_position(start.position), "reading where another worker starts");
  position.own_steps = mine.steps;
  DT_TRY(data::EpochRest rest, parse_rest(start.rest), "reading where another worker starts");
  std::optional<BestAccuracy> best;
  if (start.best) best = BestAccuracy{start.best->epoch, start.best->accuracy};
  return AgreedStart{.position = position,
                     .rest = std::move(rest),
                     .rate_factor = start.rate_factor,
                     .loss_scale = {mine.loss_scale, mine.good_steps},
                     .metric_sums = std::move(mine.metric_sums),
                     .best = best,
                     .kept_epochs = std::move(start.kept_epochs),
                     .began_with_model = start.began_with_model,
                     .goes_back = start.goes_back,
                     .giver = start.giver};
}

AgreedEnd agreed_end(const std::vector<job::EpochEnd>& all) {
  AgreedEnd end;
  for (const job::EpochEnd& worker : all) {
    end.worker_steps.push_back(worker.steps);
    end.some_stop = end.some_stop || worker.stopping;
    end.border = std::max(end.border, worker.border);
    end.saves = end.saves || worker.saves;
    end.is_torn = end.is_torn || worker.is_torn;
  }
  end.saves = end.saves && end.border > 0 && !end.is_torn;
  return end;
}

job::WorkerState worker_state(const OwnState& own) {
  const LossScale::State loss_scale = own.loss_scale.kept();
  return {
      .steps = 0, .loss_scale = loss_scale.scale, .good_steps = loss_scale.good_steps, .metric_sums = own.metric_sums};
}

}  // namespace

Result<AgreedStart> agree_on_start(job::Coordinator& coordinator, const OwnStart& own) {
  const size_t workers = coordinator.live().size();  // all that there are at the start; the other seats are empty
  job::RunStart told;
  if (coordinator.rank() == 0) told = run_start(own, workers);
  DT_TRY(std::vector<job::RunStart> all, coordinator.all_gather("the start of training", std::move(told)));
  job::RunStart& start = all.front();
  if (start.workers.empty()) {  // a worker that measures its speed gathers only its own message
    start.workers.resize(workers);
    start.position = to_text(Position());
  }
  if (start.workers.size() != workers) {
    return fail(Code::kInternal, "worker 0 sent the states of {} workers, but the job has {} workers",
                start.workers.size(), workers);
  }
  return agreed_start(start, coordinator.rank(), own);
}

Result<AgreedEnd> agree_on_epoch_end(job::Coordinator& coordinator, const OwnEnd& own) {
  const job::EpochEnd message{.steps = own.steps,
                              .stopping = own.stopping,
                              .border = coordinator.border(),
                              .saves = own.saves,
                              .is_torn = own.is_torn,
                              .is_whole = own.is_whole,
                              .kept = own.kept};
  DT_TRY(const std::vector<job::EpochEnd> all, coordinator.all_gather("the end of an epoch or of the job", message));
  return agreed_end(all);
}

Result<AgreedEnd> join_at_border(job::Coordinator& coordinator) {
  DT_TRY(const std::vector<job::Contribution> all, coordinator.take_part());
  std::vector<job::EpochEnd> ends;
  for (const job::Contribution& one : all) {
    const auto* end = std::get_if<job::EpochEnd>(&one);
    if (end == nullptr) return fail(Code::kInternal, "the others have not met at a border");
    ends.push_back(*end);
  }
  return agreed_end(ends);
}

namespace {

// What the worker that hands over tells the others. `live`: the number of workers.
Result<job::RunStart> handed_over(const OwnStart& own, size_t live, const HandOver& hand_over) {
  DT_TRY(const std::optional<Start> back, hand_over());
  job::RunStart told = run_start(own, 1);
  if (back) {
    OwnStart earlier{.start = *back,
                     .continues_checkpoints = true,
                     .metric_sums = own.metric_sums,
                     .began_with_model = own.began_with_model};
    told = run_start(earlier, live);
  }
  told.has_handed_over = true;
  told.goes_back = back.has_value();
  return told;
}

}  // namespace

Result<AgreedStart> welcome_newcomers(job::Coordinator& coordinator, const std::set<uint32_t>& newcomers,
                                      const OwnStart& own, const HandOver& hand_over) {
  const auto is_new = [&](uint32_t rank) { return newcomers.contains(rank); };
  while (true) {
    const std::vector<uint32_t> live = coordinator.live();
    const auto first = std::ranges::find_if_not(live, is_new);
    job::RunStart told;
    if (first != live.end() && *first == coordinator.rank()) {
      DT_TRY(told, handed_over(own, live.size(), hand_over));
      told.giver = coordinator.rank();
    }
    DT_TRY(std::vector<job::RunStart> all, coordinator.all_gather("the position of the run", std::move(told)));
    const auto start = std::ranges::find_if(all, &job::RunStart::has_handed_over);
    const auto at = std::ranges::find(live, coordinator.rank()) - live.begin();
    if (start != all.end()) return agreed_start(*start, start->goes_back ? static_cast<size_t>(at) : 0, own);
    if (std::ranges::all_of(coordinator.live(), is_new)) {
      return fail(Code::kPeerLost, "the workers that knew the position of the run were lost");
    }
  }
}

Result<WorkerStates> gather_states(job::Coordinator& coordinator, const std::string& why, const OwnState& own) {
  DT_TRY(std::vector<job::WorkerState> all, coordinator.all_gather(why, worker_state(own)));
  WorkerStates states;
  for (job::WorkerState& worker : all) {
    if (own.loss_scale.is_dynamic()) states.loss_scales.push_back({worker.loss_scale, worker.good_steps});
    states.metric_sums.push_back(std::move(worker.metric_sums));
  }
  return states;
}

}  // namespace dtrain::train
