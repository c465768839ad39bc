#include "train/agreement.h"

#include <algorithm>
#include <span>
#include <utility>

namespace dtrain::train {
namespace {

struct Gathered {
  WorkerStates states;
  std::vector<double> sums;
};

// Collects every worker's state. `more` is summed in the same exchange.
Result<Gathered> gather(job::Coordinator& coordinator, const std::string& why, const OwnState& own,
                        std::vector<double> more) {
  const size_t workers = coordinator.workers();
  const size_t width = 2 + own.metric_sums.size();
  const size_t shared = more.size();
  std::vector<double> numbers = std::move(more);
  numbers.resize(shared + workers * width, 0.0);
  const std::span<double> own_place = std::span(numbers).subspan(shared + coordinator.rank() * width, width);
  own_place[0] = own.loss_scale.state().scale;
  own_place[1] = static_cast<double>(own.loss_scale.state().good_steps);
  std::ranges::copy(own.metric_sums, own_place.begin() + 2);
  DT_TRY(const std::vector<double> all, coordinator.sum(why, numbers));
  Gathered gathered;
  gathered.sums.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(shared));
  for (size_t rank = 0; rank < workers; rank++) {
    const std::span of_rank = std::span(all).subspan(shared + rank * width, width);
    if (own.loss_scale.is_dynamic()) {
      gathered.states.loss_scales.push_back({of_rank[0], static_cast<int64_t>(of_rank[1])});
    }
    gathered.states.metric_sums.emplace_back(of_rank.begin() + 2, of_rank.end());
  }
  return gathered;
}

// What rank 0 tells the others: the shared numbers, then for each rank its steps, its loss scale (two numbers) and its
// metric sums.
constexpr size_t kShared = 5;

std::vector<double> start_numbers(const OwnStart& own, size_t workers) {
  const Start& start = own.start;
  const size_t width = 3 + own.metric_sums;
  std::vector<double> numbers(kShared + workers * width, 0.0);
  numbers[0] = static_cast<double>(start.position.epoch);
  numbers[1] = static_cast<double>(start.position.step);
  numbers[2] = static_cast<double>(start.state.samples);
  numbers[3] = static_cast<double>(start.state.updates);
  numbers[4] = own.saves_within_epochs ? 1 : 0;
  for (size_t rank = 0; rank < workers; rank++) {
    const std::span<double> of_rank = std::span(numbers).subspan(kShared + rank * width, width);
    const bool has_own_steps = start.worker_steps.size() == workers;
    of_rank[0] = static_cast<double>(has_own_steps ? start.worker_steps[rank] : own.steps_of_each);
    if (rank < start.loss_scales.size()) {
      of_rank[1] = start.loss_scales[rank].scale;
      of_rank[2] = static_cast<double>(start.loss_scales[rank].good_steps);
    }
    const bool fits = rank < start.metric_sums.size() && start.metric_sums[rank].size() == own.metric_sums;
    if (fits) std::ranges::copy(start.metric_sums[rank], of_rank.begin() + 3);  // else: other metrics were in use
  }
  return numbers;
}

}  // namespace

Result<AgreedStart> agree_on_start(job::Coordinator& coordinator, const OwnStart& own) {
  const size_t width = 3 + own.metric_sums;
  std::vector<double> numbers(kShared + coordinator.workers() * width, 0.0);
  if (coordinator.rank() == 0) numbers = start_numbers(own, coordinator.workers());
  DT_TRY(const std::vector<double> agreed, coordinator.sum("the start of training", numbers));
  const std::span of_rank = std::span(agreed).subspan(kShared + coordinator.rank() * width, width);
  return AgreedStart{.position = {static_cast<int64_t>(agreed[0]), static_cast<int64_t>(agreed[1])},
                     .samples = static_cast<uint64_t>(agreed[2]),
                     .updates = static_cast<uint64_t>(agreed[3]),
                     .saves_within_epochs = agreed[4] > 0,
                     .own_steps = static_cast<uint64_t>(of_rank[0]),
                     .loss_scale = {of_rank[1], static_cast<int64_t>(of_rank[2])},
                     .metric_sums = {of_rank.begin() + 3, of_rank.end()}};
}

Result<EpochEnd> agree_on_epoch_end(job::Coordinator& coordinator, uint64_t own_steps, bool stopping) {
  std::vector<double> numbers(1 + coordinator.workers(), 0.0);
  numbers[0] = stopping ? 1 : 0;
  numbers[1 + coordinator.rank()] = static_cast<double>(own_steps);
  DT_TRY(const std::vector<double> all, coordinator.sum("the end of an epoch or of the job", numbers));
  return EpochEnd{.worker_steps = {all.begin() + 1, all.end()}, .some_stop = all[0] > 0};
}

Result<WorkerStates> gather_states(job::Coordinator& coordinator, const std::string& why, const OwnState& own) {
  DT_TRY(Gathered gathered, gather(coordinator, why, own, {}));
  return std::move(gathered.states);
}

Result<SaveMeeting> meet_to_save(job::Coordinator& coordinator, const OwnState& own, const SaveDecision& decision) {
  std::vector<double> from_rank_0(2, 0.0);
  if (coordinator.rank() == 0) from_rank_0 = {decision.is_due ? 1.0 : 0.0, static_cast<double>(decision.next_meeting)};
  DT_TRY(Gathered gathered, gather(coordinator, "a checkpoint within an epoch", own, std::move(from_rank_0)));
  return SaveMeeting{
      .states = std::move(gathered.states),
      .decision = {.is_due = gathered.sums[0] > 0, .next_meeting = static_cast<uint64_t>(gathered.sums[1])}};
}

}  // namespace dtrain::train
