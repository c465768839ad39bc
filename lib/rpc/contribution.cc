#include "rpc/contribution.h"

#include "base/overloaded.h"

namespace dtrain::rpc {
namespace {

void fill(proto::WorkerState& message, const job::WorkerState& worker) {
  message.set_steps(worker.steps);
  message.set_loss_scale(worker.loss_scale);
  message.set_good_steps(worker.good_steps);
  message.mutable_metric_sums()->Assign(worker.metric_sums.begin(), worker.metric_sums.end());
}

job::WorkerState from_proto(const proto::WorkerState& message) {
  return {.steps = message.steps(),
          .loss_scale = message.loss_scale(),
          .good_steps = message.good_steps(),
          .metric_sums = {message.metric_sums().begin(), message.metric_sums().end()}};
}

void fill(proto::RunStart& message, const job::RunStart& start) {
  message.set_position(start.position);
  message.set_rest(start.rest);
  message.set_rate_factor(start.rate_factor);
  for (const job::WorkerState& worker : start.workers) fill(*message.add_workers(), worker);
  if (start.best) {
    message.mutable_best()->set_epoch(start.best->epoch);
    message.mutable_best()->set_accuracy(start.best->accuracy);
  }
  message.set_has_handed_over(start.has_handed_over);
  message.set_goes_back(start.goes_back);
  message.set_giver(start.giver);
  message.set_began_with_model(start.began_with_model);
  message.mutable_kept_epochs()->Assign(start.kept_epochs.begin(), start.kept_epochs.end());
}

job::RunStart from_proto(const proto::RunStart& message) {
  job::RunStart start{.position = message.position(),
                      .rest = message.rest(),
                      .rate_factor = message.rate_factor() == 0 ? 1 : message.rate_factor(),
                      .workers = {},
                      .best = {},
                      .kept_epochs = {message.kept_epochs().begin(), message.kept_epochs().end()},
                      .has_handed_over = message.has_handed_over(),
                      .goes_back = message.goes_back(),
                      .giver = message.giver(),
                      .began_with_model = message.began_with_model()};
  for (const proto::WorkerState& worker : message.workers()) start.workers.push_back(from_proto(worker));
  if (message.has_best()) start.best = job::BestEpoch{message.best().epoch(), message.best().accuracy()};
  return start;
}

}  // namespace

proto::Contribution to_proto(const job::Contribution& contribution) {
  proto::Contribution message;
  std::visit(
      Overloaded{[&](const job::Chunk& chunk) {
                   message.mutable_chunk()->set_size(chunk.size);
                   message.mutable_chunk()->set_bytes(chunk.bytes);
                 },
                 [&](const job::FileCount& count) { message.mutable_file_count()->set_files(count.files); },
                 [&](const job::IndexProgress& progress) {
                   message.mutable_index_progress()->set_is_done(progress.is_done);
                   message.mutable_index_progress()->set_offset(progress.offset);
                 },
                 [&](const job::DeviceCount& count) { message.mutable_device_count()->set_devices(count.devices); },
                 [&](const job::Address& address) { message.mutable_address()->set_bytes(address.bytes); },
                 [&](const job::RunStart& start) { fill(*message.mutable_run_start(), start); },
                 [&](const job::EpochEnd& end) {
                   message.mutable_epoch_end()->set_steps(end.steps);
                   message.mutable_epoch_end()->set_stopping(end.stopping);
                   message.mutable_epoch_end()->set_border(end.border);
                   message.mutable_epoch_end()->set_saves(end.saves);
                   message.mutable_epoch_end()->set_is_torn(end.is_torn);
                   message.mutable_epoch_end()->set_is_whole(end.is_whole);
                   if (end.kept) message.mutable_epoch_end()->set_kept(*end.kept);
                 },
                 [&](const job::WorkerState& state) { fill(*message.mutable_checkpoint_state(), state); },
                 [&](const job::Speed& speed) { message.mutable_speed()->set_samples_per_s(speed.samples_per_s); },
                 [&](const job::NewGroups& groups) { message.mutable_new_groups()->set_next_step(groups.next_step); },
                 [&](const job::RateChange& change) { message.mutable_rate_change()->set_factor(change.factor); },
                 [&](const job::WorkerTimes& times) {
                   message.mutable_worker_times()->set_samples(times.samples);
                   message.mutable_worker_times()->set_batches(times.batches);
                   message.mutable_worker_times()->set_seconds(times.seconds);
                 },
                 [&](const job::BatchDurations& durations) {
                   message.mutable_batch_durations()->mutable_ms()->Assign(durations.ms.begin(), durations.ms.end());
                 },
                 [&](const job::PairAddresses& addresses) {
                   message.mutable_pair_addresses()->mutable_bytes()->Assign(addresses.bytes.begin(),
                                                                             addresses.bytes.end());
                 }},
      contribution);
  return message;
}

std::optional<job::Contribution> from_proto(const proto::Contribution& message) {
  using What = proto::Contribution::WhatCase;
  switch (message.what_case()) {
    case What::kChunk: return job::Chunk{message.chunk().size(), message.chunk().bytes()};
    case What::kFileCount: return job::FileCount{message.file_count().files()};
    case What::kIndexProgress:
      return job::IndexProgress{message.index_progress().is_done(), message.index_progress().offset()};
    case What::kDeviceCount: return job::DeviceCount{message.device_count().devices()};
    case What::kAddress: return job::Address{message.address().bytes()};
    case What::kRunStart: return from_proto(message.run_start());
    case What::kEpochEnd:
      return job::EpochEnd{.steps = message.epoch_end().steps(),
                           .stopping = message.epoch_end().stopping(),
                           .border = message.epoch_end().border(),
                           .saves = message.epoch_end().saves(),
                           .is_torn = message.epoch_end().is_torn(),
                           .is_whole = message.epoch_end().is_whole(),
                           .kept = kept_of(message.epoch_end())};
    case What::kCheckpointState: return from_proto(message.checkpoint_state());
    case What::kSpeed: return job::Speed{message.speed().samples_per_s()};
    case What::kNewGroups: return job::NewGroups{message.new_groups().next_step()};
    case What::kRateChange: return job::RateChange{message.rate_change().factor()};
    case What::kWorkerTimes:
      return job::WorkerTimes{message.worker_times().samples(), message.worker_times().batches(),
                              message.worker_times().seconds()};
    case What::kBatchDurations:
      return job::BatchDurations{{message.batch_durations().ms().begin(), message.batch_durations().ms().end()}};
    case What::kPairAddresses:
      return job::PairAddresses{{message.pair_addresses().bytes().begin(), message.pair_addresses().bytes().end()}};
    case What::WHAT_NOT_SET: break;
  }
  return std::nullopt;
}

std::string kind_of(const proto::Contribution& message) {
  const auto* field = proto::Contribution::descriptor()->FindFieldByNumber(message.what_case());
  return field == nullptr ? "" : field->name();
}

}  // namespace dtrain::rpc
