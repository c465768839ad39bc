#include "train/pace.h"

#include <algorithm>

namespace dtrain::train {
namespace {

double seconds_between(SteadyTime begin, SteadyTime end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

void Pace::set_network(double network_s) {
  totals_.wait_network_s = network_s;
}

void Pace::step(SteadyTime begin, SteadyTime end, SteadyTime::duration data_wait, double network_s) {
  totals_.steps++;
  totals_.seconds += seconds_between(begin, end);
  totals_.wait_data_s += std::chrono::duration<double>(data_wait).count();
  set_network(network_s);
}

void Pace::wait(SteadyTime begin, SteadyTime end, double network_s) {
  totals_.seconds += seconds_between(begin, end);
  set_network(network_s);
}

std::optional<job::WorkerProgress> Pace::report(uint64_t step, SteadyTime now) {
  if (!reported_at_) reported_at_ = now;
  if (now - *reported_at_ < kReportInterval) return std::nullopt;
  const PaceTotals since{.steps = totals_.steps - reported_.steps,
                         .seconds = totals_.seconds - reported_.seconds,
                         .wait_data_s = totals_.wait_data_s - reported_.wait_data_s,
                         .wait_network_s = totals_.wait_network_s - reported_.wait_network_s};
  reported_ = totals_;
  reported_at_ = now;
  const double samples = static_cast<double>(since.steps * batch_size_);
  return job::WorkerProgress{.step = step,
                             .samples_per_s = since.seconds > 0 ? samples / since.seconds : 0,
                             .wait_data_share = share(since.wait_data_s, since),
                             .wait_network_share = share(since.wait_network_s, since)};
}

double share(double wait_s, const PaceTotals& totals) {
  return totals.seconds > 0 ? wait_s / totals.seconds : 0;
}

}  // namespace dtrain::train
