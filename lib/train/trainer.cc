#include "train/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/thread.h"
#include "job/flags/flags.h"
#include "train/agreement.h"
#include "train/epoch_clock.h"
#include "train/finite.h"
#include "train/group_renewal.h"
#include "train/monitor.h"
#include "train/other_workers.h"
#include "train/rate_control.h"
#include "train/reporter.h"
#include "train/rollback.h"
#include "train/saver.h"
#include "train/server_return.h"
#include "train/step.h"
#include "train/thread_tuner.h"
#include "train/validation.h"

namespace dtrain::train {

using telemetry::Span;

// The step loop. The clock knows the position of the run, the reporter what is logged, the saver what is saved.
class Trainer::Impl {
 public:
  Impl(TrainSpec spec, TrainParts parts);
  Result<TrainOutcome> run();

 private:
  Result<TrainOutcome> run_epochs();
  Result<> begin();
  Result<> begin_from(const AgreedStart& agreed);
  Result<> join();
  [[nodiscard]] StartSpec start_spec() const;
  Result<Start> own_start();
  Result<> seek(const AgreedStart& start);
  Result<std::vector<ParameterView>> filled_devices();
  Result<> take_over(const AgreedStart& start);
  enum class Next { kEndEpoch, kContinueEpoch, kStop, kLeave, kGoBack };
  Result<Next> train_epoch();
  Result<bool> train_part();
  enum class Went { kStep, kEnd, kRefused };
  Result<Went> train_step();
  Result<bool> may_begin_step();
  Result<> mend(const Error& error);
  Result<> follow_servers();
  Result<> continue_with_servers();
  [[nodiscard]] Start own_position() const;
  Result<bool> settle_in();
  Result<bool> epoch_is_over();
  Result<Next> agree_on_next(bool is_whole);
  Result<> divide_among_live();
  Result<bool> divide_rest_among_live();
  Result<AgreedStart> welcome(const std::set<uint32_t>& newcomers, const RecordDivision& now);
  [[nodiscard]] bool lacks_workers() const { return spec_.goes_back && parts_.coordinator.lacks_workers(); }
  Result<Next> meet_after_loss();
  Result<std::optional<Start>> hand_over(const RecordDivision& now);
  Result<> go_back(const AgreedStart& to, const EpochRule& rule);
  Result<bool> give_back(const AgreedStart& to);
  Result<> save_within_epoch();
  void adopt(RecordDivision now, std::vector<uint32_t> live);
  Result<bool> share_weights();
  Result<bool> share_weights_once();
  Result<const data::LoadedBatch*> next_batch();
  Result<> start_pass(int64_t pass, int64_t batch);
  Result<> pace();
  Result<> step();
  Result<> launch_next();
  [[nodiscard]] bool next_step_follows() const;
  void tune_decoders(SteadyTime asked_for_data, SteadyTime::duration data_wait, double network_wait_s);
  Result<> evaluate_within_epoch();
  Result<bool> end_epoch();
  Result<bool> save_and_evaluate();
  Result<> save_epoch();
  [[nodiscard]] telemetry::Timeline* timeline() const {
    return parts_.tracer == nullptr ? nullptr : &parts_.tracer->timeline();
  }
  Result<> evaluate();
  Result<> validate();
  Result<> check_validation_loss();
  template <class Copy>
  Result<> save(const Copy& copy);
  [[nodiscard]] bool validates() const { return parts_.inference != nullptr && parts_.validation_data != nullptr; }
  Result<> regroup();
  Result<> stop();
  Result<TrainOutcome> leave();

  TrainSpec spec_;
  TrainParts parts_;
  StepRunner step_runner_;
  EpochClock clock_;
  telemetry::Recorder recorder_;
  Reporter reporter_;
  RateControl rate_control_;
  Saver saver_;
  GroupRenewal renewal_;
  ServerReturn server_return_;
  Regrouper regrouper_;
  Monitor monitor_;
  std::optional<ThreadTuner> tuner_;
  std::vector<uint32_t> divided_among_;    // the ranks of the workers that divide the records
  std::string job_text_;                   // the JobSpec of these workers
  std::vector<NamedArray> slots_to_give_;  // the optimizer's state to which the run goes back, if this worker has it
  bool began_with_model_ = false;          // whether the run began with a model or a checkpoint
  bool is_reading_ = false;                // whether a pass over the data is in progress
  bool is_ahead_ = false;                  // whether the next step was launched before the last one was finished
  bool must_save_ = false;                 // whether a checkpoint is due at the border where the workers have met
  bool must_stop_ = false;                 // whether the coordinator has refused the next step when launch_next() asked
  SteadyTime step_began_;                  // when the last step began
  bool stopped_ = false;
};

Trainer::Impl::Impl(TrainSpec spec, TrainParts parts)
    : spec_(std::move(spec)),
      parts_(std::move(parts)),
      step_runner_({.graph = parts_.graph,
                    .inputs = parts_.inputs,
                    .devices = parts_.training,
                    .bucket_begin = parts_.bucket_begin,
                    .store = parts_.store,
                    .rank = parts_.coordinator.rank(),
                    .workers = parts_.coordinator.workers(),
                    .on_nan = spec_.on_nan,
                    .loss_scale = spec_.loss_scale,
                    .tracer = parts_.tracer,
                    .log = parts_.log}),
      clock_(spec_.epoch, spec_.schedule,
             {.may_skip_alone = step_runner_.may_skip_alone(), .may_lose_workers = parts_.divide != nullptr},
             parts_.store, parts_.coordinator),
      recorder_(parts_.registry),
      reporter_({.spec = spec_,
                 .clock = clock_,
                 .training_data = parts_.training_data,
                 .data = parts_.data,
                 .store = parts_.store,
                 .coordinator = parts_.coordinator,
                 .step_times = step_runner_.times(),
                 .registry = parts_.registry,
                 .recorder = recorder_,
                 .log = parts_.log}),
      rate_control_({.spec = spec_,
                     .clock = clock_,
                     .store = parts_.store,
                     .coordinator = parts_.coordinator,
                     .log = parts_.log}),
      saver_({.spec = spec_,
              .clock = clock_,
              .training_metrics = reporter_.training_metrics(),
              .loss_scale = step_runner_.loss_scale(),
              .graph = parts_.graph,
              .training = parts_.training,
              .store = parts_.store,
              .rate_factor = rate_control_.factor(),
              .coordinator = parts_.coordinator,
              .waits = parts_.waits,
              .log = parts_.log,
              .fault = parts_.checkpoint_fault,
              .take_claim = parts_.take_claim}),
      renewal_({.store = parts_.store,
                .coordinator = parts_.coordinator,
                .clock = clock_,
                .steps = step_runner_,
                .metrics = reporter_.training_metrics(),
                .log = parts_.log}),
      server_return_({.snapshot_every = spec_.snapshot_every,
                      .all_go_back = spec_.all_go_back,
                      .store = parts_.store,
                      .coordinator = parts_.coordinator,
                      .clock = clock_,
                      .steps = step_runner_,
                      .metrics = reporter_.training_metrics(),
                      .log = parts_.log}),
      regrouper_(spec_.regroup, parts_.store.groups(), parts_.coordinator, parts_.log),
      monitor_(parts_.coordinator.rank() == 0 ? spec_.monitor : 0, parts_.graph, parts_.log) {
  if (spec_.tune_decoders) tuner_.emplace(*spec_.tune_decoders);
  for (std::unique_ptr<telemetry::Sink>& sink : parts_.sinks) recorder_.add(std::move(sink));
}

StartSpec Trainer::Impl::start_spec() const {
  return {.from = spec_.start_from,
          .pretrained = spec_.pretrained,
          .pretrained_note = spec_.pretrained_note,
          .initializer = spec_.initializer,
          .optimizer = spec_.optimizer,
          .seed = spec_.seed,
          .job_hash = spec_.job_hash,
          .job_text = spec_.job_text,
          .epoch = spec_.epoch};
}

Result<Start> Trainer::Impl::own_start() {
  if (parts_.coordinator.rank() != 0) return Start{};
  began_with_model_ = spec_.start_from || !spec_.pretrained.empty();
  return make_start(start_spec(), parts_.graph, parts_.training.parameters(), parts_.log);
}

namespace {

kvstore::TrainingState training_state(const Position& position, double rate_factor, std::vector<NamedArray> slots) {
  return {
      .slots = std::move(slots), .samples = position.samples, .updates = position.updates, .rate_factor = rate_factor};
}

}  // namespace

// The one way to a position, after the clock has gone there: everything that counts or reads continues there. The
// weights follow.
Result<> Trainer::Impl::seek(const AgreedStart& start) {
  is_reading_ = false;  // next_batch() then starts the loader at the clock's position
  step_runner_.loss_scale() = spec_.loss_scale;
  step_runner_.loss_scale().restore(start.loss_scale);
  return reporter_.training_metrics().set_sums(start.metric_sums);
}

// The views of the devices, of which the first has what parameters() has.
Result<std::vector<ParameterView>> Trainer::Impl::filled_devices() {
  std::vector<ParameterView> devices;
  for (size_t i = 0; i < parts_.training.size(); i++) devices.push_back(parts_.training.device_parameters(i));
  DT_TRY_VOID(copy_to_device(parts_.training.parameters(), devices.front()));
  return devices;
}

// Gets the weights from the servers, which another worker has given them.
Result<> Trainer::Impl::take_over(const AgreedStart& start) {
  DT_TRY(const std::vector<ParameterView> devices, filled_devices());
  return parts_.store.take_over(devices, training_state(start.position, start.rate_factor, {}));
}

Result<> Trainer::Impl::begin() {
  const EpochRule& epoch = spec_.epoch;
  DT_CHECK(epoch.samples > 0 && epoch.samples_per_step > 0 && epoch.samples_per_update > 0,
           "an epoch must have samples");
  flush_denormals();  // on this thread too, because the store may run updates on it
  DT_TRY_VOID(reporter_.prepare());
  if (spec_.joins) return join();
  DT_TRY(Start start, own_start());
  const bool continues_checkpoints = spec_.start_from && spec_.start_from->prefix == spec_.save_prefix;
  DT_TRY(const AgreedStart agreed,
         agree_on_start(parts_.coordinator, {.start = start,
                                             .continues_checkpoints = continues_checkpoints,
                                             .metric_sums = reporter_.training_metrics().sums().size(),
                                             .began_with_model = began_with_model_}));
  clock_.seek(agreed);
  DT_TRY_VOID(seek(agreed));
  DT_TRY(const std::vector<ParameterView> devices, filled_devices());
  DT_TRY_VOID(
      parts_.store.initialize(devices, training_state(agreed.position, agreed.rate_factor, std::move(start.slots))),
      "distributing the initial weights");
  divided_among_ = parts_.coordinator.live();
  job_text_ = spec_.job_text;
  began_with_model_ = agreed.began_with_model;
  DT_TRY_VOID(begin_from(agreed));
  if (spec_.goes_back && began_with_model_) {
    // Only the first worker can read the model, so the run goes back to this checkpoint rather than to its beginning.
    // It is complete before a worker may be lost.
    DT_TRY_VOID(saver_.save_last({std::move(start.metric_sums), std::move(start.loss_scales)}));
    DT_TRY_VOID(saver_.finish());
  }
  if (server_return_.is_due()) server_return_.keep(own_position(), job_text_);
  return parts_.divide ? parts_.coordinator.begin_training(agreed.position.updates) : Result<>();
}

Result<> Trainer::Impl::begin_from(const AgreedStart& agreed) {
  DT_TRY_VOID(reporter_.begin());
  rate_control_.begin(agreed.rate_factor);
  return saver_.begin(agreed);
}

// Begins at the border at which the others let this worker join.
Result<> Trainer::Impl::join() {
  DT_TRY(const AgreedEnd border, join_at_border(parts_.coordinator), "joining the job");
  server_return_.join();
  const bool is_in_group = parts_.store.worker_group() != nullptr;
  if (is_in_group) DT_TRY_VOID(take_over({}));
  DT_TRY_VOID(renewal_.join(), "joining the group of workers");
  const std::vector<uint32_t> live = parts_.coordinator.live();
  DT_TRY(RecordDivision now, parts_.divide(live), "dividing the records among {} workers", live.size());
  const std::set<uint32_t> newcomers = renewal_.take_newcomers();
  DT_TRY(AgreedStart agreed, welcome(newcomers, now), "joining the job");
  Position& at = agreed.position;
  const bool has_own_steps = agreed.goes_back || now.epoch.ends_after_fixed_steps;
  if (!has_own_steps) at.own_steps = static_cast<uint64_t>(now.epoch.steps_until(at.epoch) + at.step);
  clock_.seek(agreed, now.epoch);
  server_return_.note_newcomers(newcomers);
  DT_TRY_VOID(seek(agreed));
  adopt(std::move(now), live);
  began_with_model_ = agreed.began_with_model;
  parts_.coordinator.pass_border(border.border);
  must_save_ = border.saves && !agreed.goes_back;
  bool is_complete = true;
  Result<> taken;
  if (!is_in_group) {
    taken = take_over(agreed);
    const bool is_torn = !taken && server_return_.may_continue_after(taken.error());
    if (!taken && !is_torn) return tl::unexpected(Error(taken.error()).with("getting the weights of the others"));
    DT_TRY(const uint64_t next, parts_.store.next_step());
    if (!is_torn) clock_.skip_to_update(next);
  } else if (agreed.goes_back) {
    DT_TRY(is_complete, give_back(agreed), "getting the weights of the others");
  } else {
    DT_TRY_VOID(parts_.store.set_rate({agreed.rate_factor, at.samples}, false));
  }
  if (agreed.goes_back && is_complete) DT_TRY_VOID(parts_.coordinator.begin_training(at.updates));
  parts_.log.info("joined the job in epoch {}, at step {}; {} workers take part now", at.epoch + 1, at.step,
                  live.size());
  DT_TRY_VOID(begin_from(agreed));
  DT_TRY_VOID(rate_control_.follow_batch());
  return taken ? Result<>() : mend(taken.error());
}

Result<TrainOutcome> Trainer::Impl::run() {
  Result<TrainOutcome> outcome = run_epochs();
  static_cast<void>(saver_.finish());  // if the run has failed, its last checkpoint is completed all the same
  reporter_.show_run();
  return outcome;
}

Result<TrainOutcome> Trainer::Impl::run_epochs() {
  DT_TRY_VOID(begin());
  if (must_save_) DT_TRY_VOID(save_within_epoch(), "writing a checkpoint within an epoch");
  while (clock_.position().epoch < spec_.num_epochs) {
    DT_TRY(const Next next, train_epoch());
    if (next == Next::kLeave) return leave();
    if (next == Next::kGoBack) continue;
    if (next == Next::kStop) {
      DT_TRY_VOID(stop());
      break;
    }
    DT_TRY_VOID(divide_among_live());
    DT_TRY(const bool is_saved, end_epoch());
    if (is_saved) clock_.epoch_done();
  }
  DT_TRY_VOID(save([this] { return saver_.finish(); }));
  if (!stopped_) DT_TRY_VOID(reporter_.end_run(), "ending the run");
  return TrainOutcome{.stopped = stopped_, .position = clock_.position()};
}

// Trains until this worker leaves, until all workers have met at the end of the epoch or because they were asked to
// stop, or until they have gone back.
Result<Trainer::Impl::Next> Trainer::Impl::train_epoch() {
  reporter_.begin_epoch();
  for (;;) {
    DT_TRY(const bool is_whole, train_part(), "training epoch {}", clock_.position().epoch + 1);
    if (!is_whole && parts_.coordinator.leaves()) return Next::kLeave;
    DT_TRY(Next next, agree_on_next(is_whole));
    if (next == Next::kEndEpoch && lacks_workers()) {
      DT_TRY(next, meet_after_loss());
    }
    if (next != Next::kContinueEpoch) return next;
    DT_TRY(const bool has_gone_back, settle_in());
    if (has_gone_back) return Next::kGoBack;
    if (must_save_) DT_TRY_VOID(save_within_epoch(), "writing a checkpoint within an epoch");
  }
}

// Returns false if the coordinator refuses a step before the end of the epoch.
Result<bool> Trainer::Impl::train_part() {
  for (;;) {
    const Result<Went> went = train_step();
    if (!went) {
      DT_TRY_VOID(mend(went.error()));
    } else if (*went != Went::kStep) {
      return *went == Went::kEnd;
    }
  }
}

Result<Trainer::Impl::Went> Trainer::Impl::train_step() {
  if (!is_ahead_) {
    DT_TRY(const bool over, epoch_is_over());
    if (over) return Went::kEnd;
    DT_TRY(const bool go, may_begin_step());
    if (!go) return Went::kRefused;
  }
  DT_TRY_VOID(step());
  DT_TRY_VOID(reporter_.end_step(saver_.longest_save_s()));
  DT_TRY_VOID(evaluate_within_epoch());
  DT_TRY_VOID(saver_.check());
  return Went::kStep;
}

// After an error: if the workers' group has lost a member, continues with the others, and if a lost server is replaced,
// with that one; otherwise returns the error.
Result<> Trainer::Impl::mend(const Error& error) {
  if (server_return_.may_continue_after(error)) {
    DT_TRY_VOID(server_return_.meet(error));
    return follow_servers();
  }
  if (!renewal_.may_continue_after(error)) return tl::unexpected(error);
  DT_TRY_VOID(renewal_.meet(error));
  must_save_ = false;  // as on the others: nobody saves where the group was made anew
  DT_TRY_VOID(settle_in());
  return {};
}

// The servers have gone back, because one of them was replaced: so do all workers, with the weights of the servers. If
// another server is lost before all workers have them, they go back once more.
Result<> Trainer::Impl::follow_servers() {
  // A border that this worker has reached is none for those that have not.
  if (const uint64_t border = parts_.coordinator.border(); border > 0) parts_.coordinator.pass_border(border);
  if (!spec_.all_go_back) return continue_with_servers();
  const Position from = clock_.position();
  for (bool have_all = false; !have_all;) {
    DT_TRY(const AgreedStart to, server_return_.agree_on_position(job_text_, clock_.rule()), "going back");
    clock_.go_back(to, clock_.rule());
    DT_TRY_VOID(seek(to));
    reporter_.go_back();
    rate_control_.go_back(to.rate_factor);
    must_save_ = must_stop_ = is_ahead_ = false;
    DT_TRY(have_all, server_return_.agree_on_success(take_over(to)), "getting the weights of the snapshots");
    if (!have_all) continue;
    server_return_.restore_statistics();
    server_return_.settle(own_position(), job_text_);
    parts_.log.info(
        "a lost server was replaced: the run goes back from epoch {}, step {} to epoch {}, step {}, and repeats {} "
        "steps",
        from.epoch + 1, from.step, to.position.epoch + 1, to.position.step, from.updates - to.position.updates);
    DT_TRY_VOID(parts_.coordinator.begin_training(to.position.updates));
    DT_TRY_VOID(saver_.begin(to));
  }
  return rate_control_.follow_batch();
}

// A server was replaced, and only that one has gone back: the workers continue where they are, with the weights of all
// servers.
Result<> Trainer::Impl::continue_with_servers() {
  for (bool have_all = false; !have_all;) {
    must_save_ = must_stop_ = is_ahead_ = is_reading_ = false;
    DT_TRY(have_all, server_return_.align(regrouper_.policy()), "continuing with another server");
    if (!have_all) continue;
    AgreedStart here;
    here.position = clock_.position();
    here.rate_factor = rate_control_.factor();
    DT_TRY(have_all, server_return_.agree_on_success(take_over(here)), "getting the weights of all servers");
    server_return_.restore_statistics();
  }
  const Position at = clock_.position();
  parts_.log.info("a lost server was replaced: the run continues in epoch {}, at step {}", at.epoch + 1, at.step);
  DT_TRY(const uint64_t next, parts_.store.next_step());
  DT_TRY_VOID(parts_.coordinator.begin_training(next));
  return rate_control_.follow_batch();
}

// What all workers know about the position of the run.
Start Trainer::Impl::own_position() const {
  Start start;
  start.position = clock_.position();
  start.rest = clock_.rest();
  start.rate_factor = rate_control_.factor();
  start.best = saver_.best();
  start.kept_epochs = saver_.kept_epochs();
  return start;
}

// After the workers have met somewhere in the epoch: those that are there now divide the rest of it, or go back; see
// divide_rest_among_live(). If a group was made anew at its end, nothing is left to be divided, and divide_among_live()
// follows. But if a worker was lost there and is replaced already, all go back with the newcomer.
Result<bool> Trainer::Impl::settle_in() {
  must_stop_ = is_ahead_ = is_reading_ = false;
  if (parts_.store.worker_group() != nullptr && clock_.is_whole() && !renewal_.has_newcomers()) return false;
  return divide_rest_among_live();
}

// Asks only between updates, so that all steps for one update are made.
Result<bool> Trainer::Impl::may_begin_step() {
  if (must_stop_) return false;
  if (!clock_.begins_update()) return true;
  return parts_.coordinator.may_begin(clock_.updates());
}

Result<bool> Trainer::Impl::epoch_is_over() {
  const SteadyTime begin = std::chrono::steady_clock::now();
  const Span span(timeline(), "wait for the last weights", "wait");
  DT_TRY(const bool over, clock_.epoch_is_over());
  // epoch_is_over() may have waited for the weights of the last step. That time belongs to the steps.
  if (!spec_.epoch.ends_after_fixed_steps) reporter_.time_wait(begin);
  return over;
}

Result<> Trainer::Impl::step() {
  const SteadyTime begin = std::chrono::steady_clock::now();
  if (parts_.tracer != nullptr && !is_ahead_) parts_.tracer->begin_step(clock_.updates());
  Span span(timeline(), "step", "step");
  span.with("step", clock_.updates());
  DT_TRY_VOID(pace());
  const SteadyTime asked_for_data = std::chrono::steady_clock::now();
  const double network_wait_s = tuner_ ? parts_.store.times().wait_s : 0;
  DT_TRY(const data::LoadedBatch* batch, next_batch());
  const SteadyTime::duration data_wait = std::chrono::steady_clock::now() - asked_for_data;
  DT_CHECK(batch != nullptr, "the loader ends a pass of {} batches before step {}", parts_.training_data.batches(),
           clock_.own_steps());
  reporter_.note_rate();
  renewal_.begin_step(batch->count);
  if (server_return_.is_due()) server_return_.keep(own_position(), job_text_);
  if (!is_ahead_) DT_TRY_VOID(step_runner_.launch(*batch, clock_.updates(), clock_.ends_update()));
  if (saver_.is_due()) parts_.coordinator.request_border();
  const Result<> launched = launch_next();
  DT_TRY(const bool applied, step_runner_.finish());  // whose errors come before those of the next step
  DT_TRY_VOID(launched);
  if (!applied) {
    span.with("left_out", 1);
    must_stop_ = false;  // launch_next() asked with the number of a later step
  }
  clock_.step_done(applied, batch->count);
  if (applied) {
    const Span metrics(timeline(), "metrics", "step");
    DT_TRY_VOID(reporter_.training_metrics().add(parts_.training, batch->labels, batch->count));
  }
  reporter_.time_step(begin, data_wait, applied ? static_cast<int64_t>(batch->count) : 0);
  tune_decoders(asked_for_data, data_wait, network_wait_s);
  const uint64_t step = clock_.own_steps() - 1;
  if (!monitor_.is_due(step)) return {};
  DT_TRY_VOID(step_runner_.wait_for_weights());
  return monitor_.print(step, parts_.training);
}

// Announces the next batch, if it is known. If the next step is certain to follow at once, also launches it, so that
// the devices need not wait until the host has looked at the results of the current step.
Result<> Trainer::Impl::launch_next() {
  is_ahead_ = false;
  const data::LoadedBatch* batch = parts_.training_data.peek();
  if (batch == nullptr) return {};
  DT_TRY_VOID(step_runner_.announce(*batch));
  if (!next_step_follows()) return {};
  const uint64_t step = clock_.updates() + 1;
  const Result<bool> go = parts_.coordinator.may_begin(step);
  must_stop_ = go && !*go;
  if (!go || !*go) return {};  // after an error the loop asks again, and gets it again
  is_ahead_ = true;
  return step_runner_.launch(*batch, step);
}

// Whether the epoch has a step after the current one, and nothing between the two looks at weights or at the position
// of the run.
bool Trainer::Impl::next_step_follows() const {
  const int64_t every = spec_.eval_batches_interval;
  const bool validates_next = every > 0 && validates() && (clock_.position().step + 1) % every == 0;
  const bool is_traced = parts_.tracer != nullptr && parts_.tracer->is_wanted();
  return step_runner_.may_launch_ahead() && clock_.has_step_after_next() && !validates_next && !is_traced &&
         parts_.pacer == nullptr && !monitor_.is_due(clock_.own_steps());
}

// Passes the time of a step to the tuner, without the time that it waited for other processes, which says nothing about
// the threads of this process. `network_wait_s`: the total of such waits before the step.
void Trainer::Impl::tune_decoders(SteadyTime asked_for_data, SteadyTime::duration data_wait, double network_wait_s) {
  if (!tuner_) return;
  const double others_s = parts_.store.times().wait_s - network_wait_s;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - asked_for_data;
  const int threads = tuner_->threads();
  tuner_->step(std::max(0.0, spent.count() - others_s), std::chrono::duration<double>(data_wait).count());
  if (tuner_->threads() != threads) {
    parts_.training_data.set_threads(tuner_->threads());
    reporter_.set_decode_threads(tuner_->threads());
  }
  if (const auto decision = tuner_->take_decision()) parts_.log.info("--data-nthreads auto: {}", *decision);
}

// For --inject step-ms: pauses to simulate computation, which takes place between fetching the weights and pushing the
// gradients. The pause comes before a step because the step's weights are requested right after the previous gradients
// are pushed.
Result<> Trainer::Impl::pace() {
  if (parts_.fail_points != nullptr) parts_.fail_points->reach_step(clock_.own_steps());
  if (parts_.pacer != nullptr) DT_TRY_VOID(parts_.pacer->wait(step_began_));
  step_began_ = std::chrono::steady_clock::now();
  return {};
}

// Returns the next batch of the worker's pass. Workers' shares of the data differ in length, and so do their passes. In
// BSP a pass is an epoch.
Result<const data::LoadedBatch*> Trainer::Impl::next_batch() {
  const auto length = static_cast<uint64_t>(parts_.training_data.batches());
  const uint64_t at = clock_.own_steps() % length;
  Span span(timeline(), "wait for data", "wait");
  span.with("batch", at);
  if (at == 0 || !is_reading_) {
    DT_TRY_VOID(start_pass(static_cast<int64_t>(clock_.own_steps() / length), static_cast<int64_t>(at)));
  }
  is_reading_ = true;
  const Waits::Wait work(
      parts_.waits, [] { return "the next batch of data"; }, WaitFor::kOwnWork);
  return parts_.training_data.next();
}

Result<> Trainer::Impl::start_pass(int64_t pass, int64_t batch) {
  if (clock_.rest().read.empty()) {
    parts_.training_data.start(pass, batch);
    return {};
  }
  const auto own = std::ranges::find(divided_among_, parts_.coordinator.rank());
  return parts_.training_data.start_rest({.epoch = pass,
                                          .first = batch,
                                          .rest = clock_.rest(),
                                          .rank = own - divided_among_.begin(),
                                          .workers = static_cast<int64_t>(divided_among_.size())});
}

// What all workers do next. If workers may have different weights, waits until no worker has a step in progress. If
// workers may be lost, all must also agree on which of them are left.
Result<Trainer::Impl::Next> Trainer::Impl::agree_on_next(bool is_whole) {
  const bool is_at_border = parts_.coordinator.border() > 0, stops = !is_whole && !is_at_border;
  if (spec_.epoch.same_weights && !parts_.divide && !is_at_border) return stops ? Next::kStop : Next::kEndEpoch;
  if (const Result<> complete = step_runner_.wait_for_weights(); !complete) {
    DT_TRY_VOID(mend(complete.error()));
    return Next::kContinueEpoch;
  }
  DT_TRY(const AgreedEnd end,
         clock_.agree_on_end({.stopping = stops, .saves = saver_.is_due(), .kept = server_return_.kept()}));
  if (parts_.coordinator.restored()) {
    DT_TRY_VOID(follow_servers());
    return Next::kGoBack;
  }
  if (end.border > 0) parts_.coordinator.pass_border(end.border);
  must_save_ = end.saves;
  if (end.some_stop && !end.is_torn) return Next::kStop;
  if (end.border == 0 && !end.is_torn) return Next::kEndEpoch;
  DT_TRY_VOID(renewal_.at_border(end.is_torn));
  return Next::kContinueEpoch;
}

// At the end of an epoch in which a worker was lost, with whose place the run goes back: the others do not end the
// epoch, but come to the border at once.
Result<Trainer::Impl::Next> Trainer::Impl::meet_after_loss() {
  DT_TRY_VOID(parts_.coordinator.await_border());
  if (parts_.coordinator.leaves()) return Next::kLeave;
  return agree_on_next(false);
}

// If workers were lost in the epoch that has just ended, the validation at its end and the following epochs divide the
// records among those that are left, as a job that is resumed with fewer workers does.
Result<> Trainer::Impl::divide_among_live() {
  const std::vector<uint32_t> live = parts_.coordinator.live();
  if (live == divided_among_) return {};
  DT_TRY(RecordDivision now, parts_.divide(live), "dividing the records among {} workers", live.size());
  parts_.log.info(
      "{} of {} workers are left: from epoch {} on, they divide all records among themselves; some records of the "
      "others were not read in epoch {}",
      live.size(), divided_among_.size(), clock_.position().epoch + 2, clock_.position().epoch + 1);
  clock_.change_rule_after_epoch(now.epoch);
  adopt(std::move(now), live);
  return rate_control_.follow_batch();
}

// At a border: the workers that are there now divide what has not been read of the epoch, as a job does that is resumed
// with other workers within an epoch. Or all go back, because a lost worker has been replaced, or because of a step
// that would mix weights of two versions; then returns true.
Result<bool> Trainer::Impl::divide_rest_among_live() {
  const std::vector<uint32_t> live = parts_.coordinator.live();
  const std::set<uint32_t> newcomers = renewal_.take_newcomers();
  server_return_.note_newcomers(newcomers);
  const bool loses_bits = spec_.goes_back && renewal_.is_mixed();
  if (live == divided_among_ && newcomers.empty() && !loses_bits) return false;
  DT_TRY(RecordDivision now, parts_.divide(live), "dividing the rest of epoch {} among {} workers",
         clock_.position().epoch + 1, live.size());
  if (live != divided_among_) {
    parts_.log.info("{} workers ({} before) divide the rest of epoch {} and all further epochs among themselves",
                    live.size(), divided_among_.size(), clock_.position().epoch + 1);
  }
  Start start;
  start.position = clock_.slowest_position();
  start.rest = clock_.rest();
  adapt_to_workers(start, job_text_, now.job_text, now.epoch, parts_.log);
  clock_.change_rule_within_epoch(now.epoch, start.position, std::move(start.rest));
  adopt(now, live);
  bool has_gone_back = false;
  if (!newcomers.empty() || loses_bits) {
    DT_TRY_VOID(saver_.make_way(), "completing a checkpoint");
    DT_TRY(const AgreedStart agreed, welcome(newcomers, now), "telling the newcomers where the run is");
    has_gone_back = agreed.goes_back;
    if (has_gone_back) DT_TRY_VOID(go_back(agreed, now.epoch), "going back");
    renewal_.accept_mixed();
  }
  DT_TRY_VOID(rate_control_.follow_batch());
  return has_gone_back;
}

Result<AgreedStart> Trainer::Impl::welcome(const std::set<uint32_t>& newcomers, const RecordDivision& now) {
  const Start start = own_position();
  return welcome_newcomers(parts_.coordinator, newcomers,
                           {.start = start,
                            .continues_checkpoints = true,
                            .metric_sums = reporter_.training_metrics().sums().size(),
                            .began_with_model = began_with_model_},
                           [&] { return hand_over(now); });
}

// Gives the servers what the newcomers need: the state of the run or, if one of them replaces a lost worker and the run
// goes back, an earlier one, which is returned.
Result<std::optional<Start>> Trainer::Impl::hand_over(const RecordDivision& now) {
  std::optional<Start> back;
  if (spec_.goes_back && (!renewal_.lost().empty() || renewal_.is_mixed())) {
    DT_TRY_VOID(saver_.finish(), "completing a checkpoint");
    StartSpec start = start_spec();
    start.from.reset();
    start.pretrained.clear();
    start.job_hash = now.job_hash;
    start.job_text = now.job_text;
    start.epoch = now.epoch;
    DT_TRY(back, make_rollback({.start = start,
                                .save_prefix = spec_.save_prefix,
                                .position = clock_.position(),
                                .first_job_text = spec_.job_text,
                                .began_with_model = began_with_model_},
                               parts_.graph, parts_.training.parameters(), parts_.log));
  }
  if (!back) {
    DT_TRY_VOID(parts_.store.hand_over(nullptr));
    return back;
  }
  DT_TRY_VOID(filled_devices());
  if (parts_.store.worker_group() != nullptr) {
    slots_to_give_ = std::move(back->slots);
    return back;
  }
  const kvstore::TrainingState state = training_state(back->position, back->rate_factor, std::move(back->slots));
  DT_TRY_VOID(parts_.store.hand_over(&state));
  return back;
}

// In a group: all workers get the weights to which they go back from the one that has them. Returns false if a worker
// was lost meanwhile; then they have met again, and have gone back once more if it was replaced.
Result<bool> Trainer::Impl::give_back(const AgreedStart& to) {
  renewal_.forget_steps();
  DT_TRY(const std::vector<ParameterView> devices, filled_devices());
  const kvstore::TrainingState state = training_state(to.position, to.rate_factor, std::exchange(slots_to_give_, {}));
  const Result<> given = parts_.store.worker_group()->go_back(devices, state, to.giver);
  DT_TRY(const bool have_all, renewal_.agree_on_success(given));
  if (have_all) return true;
  DT_TRY_VOID(renewal_.at_border(true));
  must_save_ = false;
  DT_TRY_VOID(settle_in());
  return false;
}

// All workers have agreed to go back to a position of which the servers, or a worker of the group, have the weights.
Result<> Trainer::Impl::go_back(const AgreedStart& to, const EpochRule& rule) {
  const Position &at = to.position, from = clock_.position();
  const bool has_lost = !renewal_.lost().empty();
  parts_.log.info(
      "{}: the run goes back from epoch {}, step {} to epoch {}, step {}, and repeats {} steps, so that it ends with "
      "the bits of a run without {}",
      has_lost ? fmt::format("lost workers have been replaced (worker {})", fmt::join(renewal_.lost(), ", "))
               : "a step was interrupted between its updates",
      from.epoch + 1, from.step, at.epoch + 1, at.step, from.updates - at.updates,
      has_lost ? "the loss" : "the interruption");
  clock_.go_back(to, rule);
  DT_TRY_VOID(seek(to));
  reporter_.go_back();
  rate_control_.go_back(to.rate_factor);
  must_save_ = false;
  if (parts_.store.worker_group() != nullptr) {
    DT_TRY(const bool is_complete, give_back(to));
    if (!is_complete) return {};
  } else {
    DT_TRY_VOID(take_over(to));
  }
  DT_TRY_VOID(parts_.coordinator.begin_training(at.updates));
  return saver_.begin(to);
}

// To be called after the clock has changed its rule.
void Trainer::Impl::adopt(RecordDivision now, std::vector<uint32_t> live) {
  divided_among_ = std::move(live);
  parts_.training_data.set_share(now.training);
  if (parts_.validation_data != nullptr) parts_.validation_data->set_share(now.validation);
  is_reading_ = false;
  job_text_ = now.job_text;
  saver_.set_job(std::move(now.job_text), std::move(now.job_hash));
  if (now.epoch.steps_per_update == 1) return;
  parts_.log.info(
      "an update still has {} samples: each worker adds up the gradients of {} batches (--elastic-batch keep)",
      now.epoch.samples_per_update, now.epoch.steps_per_update);
}

// Gives all workers the same model, which is also the one in the checkpoint. False: they do not have it yet, because
// the workers' group was made anew meanwhile, or because they have gone back with the servers.
Result<bool> Trainer::Impl::share_weights() {
  const Span span(timeline(), "share weights and statistics", "epoch");
  Result<bool> shared = share_weights_once();
  if (!server_return_.may_go_back()) return shared;
  DT_TRY(const bool have_all, server_return_.agree_on_success(shared ? Result<>() : tl::unexpected(shared.error())));
  if (!have_all) DT_TRY_VOID(follow_servers());
  return have_all;
}

Result<bool> Trainer::Impl::share_weights_once() {
  DT_TRY_VOID(step_runner_.wait_for_weights());
  DT_TRY_VOID(parts_.store.refresh(), "fetching the newest weights");
  DT_TRY_VOID(clock_.read_samples());
  DT_TRY(const bool is_shared, renewal_.share_statistics(clock_.take_unshared_samples()),
         "sharing the moving statistics");
  return is_shared;
}

// At a border, with no step in progress. No worker was lost before the last barrier ended, so the statistics are those
// of all.
Result<> Trainer::Impl::save_within_epoch() {
  DT_TRY(const bool is_shared, share_weights());
  if (!is_shared) {  // the checkpoint is still due
    DT_TRY_VOID(settle_in());
    return {};
  }
  DT_TRY(WorkerStates states, saver_.gather("a checkpoint within an epoch"));
  if (lacks_workers()) return {};
  const Span span(timeline(), "checkpoint", "epoch");
  DT_TRY_VOID(save([&] { return saver_.save_last(std::move(states)); }));
  return clock_.wait_for_others();
}

// Returns false if the epoch does not count, because a worker or server was lost and the run goes back.
Result<bool> Trainer::Impl::end_epoch() {
  const int64_t epoch = clock_.position().epoch;
  const SteadyTime begin = std::chrono::steady_clock::now();
  DT_TRY_VOID(step_runner_.wait_for_weights());
  reporter_.time_wait(begin);
  DT_TRY_VOID(reporter_.end_epoch());
  for (;;) {
    DT_TRY(const bool is_shared, share_weights(), "ending epoch {}", epoch + 1);
    if (is_shared) break;
    if (server_return_.may_go_back() && spec_.all_go_back) return false;
    DT_TRY_VOID(divide_among_live());
  }
  DT_TRY(const bool is_saved, save_and_evaluate());
  if (!is_saved) return false;
  reporter_.log_epoch(saver_.best());
  if (regrouper_.is_due(epoch + 1) && epoch + 1 < spec_.num_epochs) DT_TRY_VOID(regroup());
  return true;
}

Result<> Trainer::Impl::save_epoch() {
  const Span span(timeline(), "checkpoint", "epoch");
  return saver_.save_epoch();
}

Result<bool> Trainer::Impl::save_and_evaluate() {
  // Validates before saving, because the checkpoint records the best epoch so far and the learning rate of the next
  // one.
  DT_TRY_VOID(evaluate());
  if (validates()) saver_.note_accuracy(reporter_.validation_metrics().epoch_accuracy());
  DT_TRY_VOID(rate_control_.meet());
  if (lacks_workers()) return false;
  DT_TRY_VOID(save([this] { return save_epoch(); }));
  DT_TRY_VOID(clock_.wait_for_others());
  return true;
}

Result<> Trainer::Impl::evaluate_within_epoch() {
  const int64_t every = spec_.eval_batches_interval, step = clock_.position().step;
  if (every == 0 || step == 0 || step % every != 0 || !validates()) return {};
  DT_TRY(const bool over, epoch_is_over());
  if (over) return {};
  DT_TRY(const bool is_shared, share_weights(), "validating within an epoch");
  if (!is_shared) {
    DT_TRY_VOID(settle_in());
    return {};
  }
  const Span span(timeline(), "validation", "epoch");
  DT_TRY_VOID(validate());
  DT_TRY_VOID(reporter_.end_validation_within_epoch());
  return rate_control_.meet();
}

Result<> Trainer::Impl::evaluate() {
  if (!validates()) return {};
  const Span span(timeline(), "validation", "epoch");
  DT_TRY_VOID(validate());
  return reporter_.end_validation();
}

Result<> Trainer::Impl::validate() {
  const Waits::Wait work(
      parts_.waits, [] { return "validation"; }, WaitFor::kOwnWork);
  const SteadyTime begin = std::chrono::steady_clock::now();
  const int64_t all = parts_.validation_data->batches();
  ValidationWatch* watch = parts_.validation_watch;
  if (watch != nullptr) watch->begin();
  const auto seen = [&](int64_t batches, const data::LoadedBatch& batch) {
    if (watch != nullptr) watch->add(parts_.inference->result(0), batch);
    reporter_.note_validated(batches, all);
  };
  DT_TRY_VOID(train::validate(clock_.position().epoch, *parts_.inference, *parts_.validation_data, parts_.coordinator,
                              reporter_.validation_metrics(), seen));
  DT_TRY_VOID(check_validation_loss());
  reporter_.end_validated();
  if (watch != nullptr) {
    watch->end({.epoch = clock_.position().epoch,
                .step = clock_.updates(),
                .images = static_cast<int64_t>(reporter_.validation_metrics().sums().front())});
  }
  reporter_.time_phase(Phase::kValidation, begin);
  return {};
}

// Checks the loss of the validation: the last step of an epoch may make weights infinite or NaN, which no later step
// would notice.
Result<> Trainer::Impl::check_validation_loss() {
  const Metrics& metrics = reporter_.validation_metrics();
  if (metrics.sums().front() == 0 || std::isfinite(metrics.epoch_cross_entropy())) return {};
  const std::string text = fmt::format("epoch {}: the validation loss is not finite", clock_.position().epoch + 1);
  if (spec_.on_nan == job::OnNan::kSkip) {
    parts_.log.warn("{}", text);
    return {};
  }
  return fail(Code::kInternal, "{}; {}", text, kRemedyOfNotFinite);
}

// Runs `copy`, which copies a checkpoint or waits for one to be written, and measures for how long training stood
// still.
template <class Copy>
Result<> Trainer::Impl::save(const Copy& copy) {
  const SteadyTime begin = std::chrono::steady_clock::now();
  Result<> copied = copy();
  if (!copied && !server_return_.may_continue_after(copied.error())) return copied;
  if (!copied) parts_.log.warn("no checkpoint is written now, because a server was lost");
  reporter_.time_phase(Phase::kCheckpoint, begin);
  return {};
}

Result<> Trainer::Impl::regroup() {
  DT_TRY(const bool changed, regrouper_.run(reporter_.own_speed()), "after epoch {}", clock_.position().epoch + 1);
  if (changed) clock_.set_samples_per_update(static_cast<uint64_t>(regrouper_.members() * spec_.batch_size));
  return {};
}

Result<> Trainer::Impl::stop() {
  stopped_ = true;
  for (bool is_shared = false; !is_shared;) {
    DT_TRY(is_shared, share_weights(), "stopping on request");
  }
  DT_TRY(WorkerStates states, saver_.gather("metrics for the last checkpoint"), "stopping on request");
  if (lacks_workers()) {
    parts_.log.warn(
        "no checkpoint is written here, because a lost worker was not replaced yet: a run that is resumed "
        "repeats the steps since the last one");
    return save([this] { return saver_.finish(); });
  }
  return save([&] { return saver_.save_last(std::move(states)); });
}

// Ends this worker while the others continue. When the weights of the next step are here, the servers have this
// worker's last gradient, and no round waits for it.
Result<TrainOutcome> Trainer::Impl::leave() {
  DT_TRY_VOID(step_runner_.wait_for_weights(), "leaving the job");
  DT_TRY_VOID(save([this] { return saver_.finish(); }), "leaving the job");
  parts_.log.info("left the job as asked, after {} steps; the other workers continue", clock_.own_steps());
  return TrainOutcome{.left = true, .position = clock_.position()};
}

Trainer::Trainer(TrainSpec spec, TrainParts parts) : impl_(std::make_unique<Impl>(std::move(spec), std::move(parts))) {}
Trainer::~Trainer() = default;
Result<TrainOutcome> Trainer::run() {
  return impl_->run();
}

}  // namespace dtrain::train
