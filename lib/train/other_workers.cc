#include "train/other_workers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "job/spec/job_spec.h"

namespace dtrain::train {
namespace {

bool divide_alike(const job::JobSpec& a, const job::JobSpec& b) {
  return a.shares == b.shares && a.batches == b.batches && a.flags.batch_size == b.flags.batch_size &&
         a.flags.scheme.resplit_every == b.flags.scheme.resplit_every;
}

std::vector<data::Share> shares_in(const job::JobSpec& spec, int64_t epoch) {
  std::vector<data::Share> shares;
  for (const job::Interval& share : spec.shares) shares.push_back({share.begin, share.end});
  const int64_t every = spec.flags.scheme.resplit_every;
  return every == 0 ? shares : data::rotated(shares, epoch / every);
}

int64_t steps_in(const job::EpochRule& rule, int64_t epoch) {
  return rule.steps_until(epoch + 1) - rule.steps_until(epoch);
}

int64_t divide_up(int64_t count, uint64_t by) {
  return (count + static_cast<int64_t>(by) - 1) / static_cast<int64_t>(by);
}

// Whether a pass reads no record of the largest share twice, apart from those that fill its last batch.
bool reads_once(const job::JobSpec& spec) {
  int64_t largest = 0;
  for (const job::Interval& share : spec.shares) largest = std::max(largest, share.end - share.begin);
  return std::ranges::max(spec.batches) <= data::batches_per_epoch(largest, spec.flags.batch_size);
}

// Adds what the workers of `before` have read up to `step`.
void add_read(data::EpochRest& rest, const job::JobSpec& before, const Position& at) {
  const bool is_first = rest.read.empty();
  data::ReadPart part{.shares = is_first ? shares_in(before, at.epoch)
                                         : data::equal_shares(data::count_left(rest), before.flags.num_workers),
                      .records = (at.step - (is_first ? 0 : rest.first_step)) * before.flags.batch_size};
  rest.read.push_back(std::move(part));
}

// What each worker knows is given to the workers that there are now: the sums of the metrics as a whole to rank 0.
void adapt_worker_states(Start& start, size_t workers) {
  start.worker_steps.clear();
  if (!start.loss_scales.empty()) start.loss_scales.resize(workers, start.loss_scales.front());
  if (start.metric_sums.empty()) return;
  std::vector<double>& sums = start.metric_sums.front();
  for (size_t rank = 1; rank < start.metric_sums.size(); rank++) {
    const std::vector<double>& more = start.metric_sums[rank];
    for (size_t i = 0; i < std::min(sums.size(), more.size()); i++) sums[i] += more[i];
  }
  start.metric_sums.resize(1);
}

// A JobSpec, and the epochs of its first worker.
struct Division {
  const job::JobSpec& spec;
  const job::EpochRule& epoch;
};

// Moves the start to the step of the present workers' epoch from which on they read what is left of it.
void continue_within_epoch(Start& start, const Division& before, const Division& now, const Log& log) {
  const job::EpochRule &was = before.epoch, &is = now.epoch;
  Position& at = start.position;
  int64_t to_come =
      divide_up((steps_in(was, at.epoch) - at.step) * static_cast<int64_t>(was.samples_per_step), is.samples_per_step);
  const bool exact = was.same_weights && is.same_weights && before.spec.records_train == now.spec.records_train &&
                     reads_once(before.spec);
  if (exact) {
    add_read(start.rest, before.spec, at);
    const int64_t left = data::count_left(start.rest);
    to_come = std::min(to_come, divide_up(left, is.samples_per_step));
    log.info("epoch {}: the {} records that are left are divided among {} workers, in {} steps", at.epoch + 1, left,
             now.spec.shares.size(), to_come);
  } else {
    start.rest = {};
    log.warn(
        "epoch {} continues with other workers or batches after the same part of its samples: up to {} of its {} "
        "records are read again, and as many are left out",
        at.epoch + 1, std::min(now.spec.records_train, to_come * static_cast<int64_t>(is.samples_per_step)),
        now.spec.records_train);
  }
  at.step = std::max<int64_t>(steps_in(is, at.epoch) - to_come, 0);
  start.rest.first_step = at.step;
  if (!is.same_weights) return;
  at.samples = static_cast<uint64_t>(at.epoch) * is.samples + static_cast<uint64_t>(at.step) * is.samples_per_step;
}

}  // namespace

bool divide_alike(const std::string& a, const std::string& b) {
  const Result<job::JobSpec> first = job::parse_job_spec(a), second = job::parse_job_spec(b);
  return first && second && first->is_complete() && second->is_complete() && divide_alike(*first, *second);
}

void adapt_to_workers(Start& start, const std::string& before_text, const std::string& now_text,
                      const job::EpochRule& is, const Log& log) {
  const Result<job::JobSpec> before = job::parse_job_spec(before_text), now = job::parse_job_spec(now_text);
  if (!before || !now || !before->is_complete() || !now->is_complete() || divide_alike(*before, *now)) return;
  const job::EpochRule was = job::plan_of(*before).epoch_of.front();
  Position& at = start.position;
  adapt_worker_states(start, now->shares.size());
  const double epochs = static_cast<double>(at.samples) / static_cast<double>(was.samples);
  at.samples = static_cast<uint64_t>(std::llround(epochs * static_cast<double>(is.samples)));
  if (at.step > 0 || !start.rest.read.empty()) continue_within_epoch(start, {*before, was}, {*now, is}, log);
  at.own_steps = static_cast<uint64_t>(is.steps_until(at.epoch) + at.step);
}

}  // namespace dtrain::train
