#include "role/worker/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/loading/batch_pictures.h"
#include "images/contact_sheet.h"
#include "job/flags/rows.h"
#include "observe/tensorboard/scalar_sink.h"
#include "observe/tensorboard/value_counts.h"
#include "role/process/membership.h"
#include "role/setup/devices.h"
#include "role/setup/drawn_network.h"

namespace dtrain::role {
namespace {

using observe::event_time;

// The flags that people compare runs by. Each has values of one type.
constexpr std::array<std::string_view, 26> kHyperParameters = {"network",
                                                               "num-layers",
                                                               "dtype",
                                                               "batch-size",
                                                               "num-workers",
                                                               "num-servers",
                                                               "kv-store",
                                                               "staleness",
                                                               "backup",
                                                               "optimizer",
                                                               "lr",
                                                               "mom",
                                                               "wd",
                                                               "lr-scheduler",
                                                               "lr-factor",
                                                               "lr-step-epochs",
                                                               "lr-warmup-epochs",
                                                               "clip-gradient",
                                                               "num-epochs",
                                                               "initializer",
                                                               "bn-mom",
                                                               "smooth-alpha",
                                                               "aug-level",
                                                               "random-crop",
                                                               "random-mirror",
                                                               "seed"};

// What the table of runs shows of each.
const std::array kResults = {
    observe::Scalar{.tag = "validation/accuracy", .description = "validation accuracy"},
    observe::Scalar{.tag = "train_epoch/accuracy", .description = "training accuracy of an epoch"},
    observe::Scalar{.tag = "train_epoch/cross_entropy", .description = "training cross-entropy of an epoch"},
    observe::Scalar{.tag = "speed/samples_per_s", .description = "samples per second of one worker"}};

constexpr std::string_view kList = "lr-step-epochs";  // a text, even if it has one number

// A text such as "off" counts as 0.
double number_in(const std::string& text) {
  double number = 0;
  return job::parse_value(text, number) ? number : 0;
}

observe::HyperParameter hyperparameter(const job::Row& row, const job::Flags& flags) {
  const std::string text = row.bind.get(flags);
  observe::HyperParameter parameter{
      .name = row.name, .value = text, .description = row.help, .is_chosen = flags.given(row.name)};
  if (row.bind.boolean) {
    parameter.value = text == "1";
  } else if (row.bind.numeric && row.name != kList) {
    parameter.value = number_in(text);
  }
  return parameter;
}

// Small pictures make a sheet of many.
int64_t shown_count(const Shape& shape, int64_t batch_size) {
  constexpr int64_t kSmall = int64_t{64} * 64, kLarge = int64_t{512} * 512;
  const int64_t pixels = shape[1] * shape[2];
  return std::min(batch_size, pixels <= kSmall ? int64_t{64} : pixels <= kLarge ? int64_t{16} : int64_t{4});
}

bool can_be_shown(const Shape& shape) {
  return shape.size() == 3 && (shape[0] == 1 || shape[0] == 3 || shape[0] == 4);
}

// Empty if no sheet can be made, which is no reason to disturb the training.
std::string sheet_event(uint64_t step, const std::vector<images::SheetPicture>& pictures) {
  constexpr int kCompression = 3;
  Result<images::Image> sheet = images::contact_sheet(pictures);
  if (!sheet) return {};
  Result<std::vector<uint8_t>> file = images::encode_image(*sheet, ".png", kCompression);
  if (!file) return {};
  return observe::picture_event(event_time(step), "training_pictures",
                                {.height = sheet->height, .width = sheet->width, .file = std::move(*file)});
}

// The text's lines as a block of code.
std::string as_code(const std::string& text) {
  return "```\n" + text + "```\n";
}

}  // namespace

std::vector<observe::HyperParameter> hyperparameters(const job::Flags& flags) {
  std::vector<observe::HyperParameter> all;
  for (const job::Row& row : job::training_flags().rows()) {
    if (std::ranges::find(kHyperParameters, row.name) != kHyperParameters.end()) {
      all.push_back(hyperparameter(row, flags));
    }
  }
  return all;
}

TensorBoardRun::TensorBoardRun(const TensorBoardSetup& setup)
    : setup_(setup),
      writer_(
          {.directory = fmt::format("{}/{}/worker-{}", setup.process.run_dir.path(), kTensorBoardFolder, setup.rank),
           .host = host_name(),
           .pid = ::getpid(),
           .log = setup.process.log}) {}

std::unique_ptr<telemetry::Sink> TensorBoardRun::sink() {
  return std::make_unique<observe::ScalarSink>(writer_);
}

train::Views TensorBoardRun::views() {
  if (!is_rank_0()) return {};
  return {.first_batch = [this](uint64_t step, const data::LoadedBatch& batch) { begin(step, batch); },
          .tensor = [this](uint64_t step, const train::ShownTensor& tensor) { add_histogram(step, tensor); }};
}

void TensorBoardRun::begin(uint64_t step, const data::LoadedBatch& batch) {
  job::Flags flags = setup_.process.flags;
  flags.job = setup_.spec.flags;
  const std::vector<observe::HyperParameter> parameters = hyperparameters(flags);
  const observe::EventTime time = event_time(step);
  writer_.add(step, observe::experiment_event(time, parameters, kResults));
  writer_.add(step, observe::session_start_event(time, parameters));
  writer_.add(step, observe::text_event(time, "jobspec", as_code(job::text(setup_.spec))));
  if (!writer_.continues()) {  // a resumed run has the network already
    writer_.add(step, observe::graph_event(time, drawn_network(setup_.network, device_names(flags.device).front())));
  }
  add_pictures(step, batch);
}

void TensorBoardRun::add_pictures(uint64_t step, const data::LoadedBatch& batch) {
  const job::JobFlags& job = setup_.spec.flags;
  const Shape& shape = setup_.data.train->image();
  if (job.augment.benchmark || !can_be_shown(shape)) return;
  // The batch is copied, and the sheet is made in the writer's thread.
  writer_.add(step,
              [step, pictures = data::pictures_of(batch, shape, shown_count(shape, job.batch_size),
                                                  setup_.data.class_names)] { return sheet_event(step, pictures); });
}

void TensorBoardRun::add_histogram(uint64_t step, const train::ShownTensor& tensor) {
  using Kind = train::ShownTensor::Kind;
  const char* const heading = tensor.kind == Kind::kWeight     ? "weights"
                              : tensor.kind == Kind::kGradient ? "gradients"
                                                               : "statistics";
  const observe::ValueCounts counts = observe::count_values(tensor.values);
  if (counts.count == 0) return;
  writer_.add(step, observe::histogram_event(event_time(step), fmt::format("{}/{}", heading, tensor.name), counts));
}

void TensorBoardRun::end(const Result<train::TrainOutcome>& outcome) {
  if (!is_rank_0() || (outcome && outcome->stopped)) return;
  const observe::SessionStatus status = outcome ? observe::SessionStatus::kSuccess : observe::SessionStatus::kFailure;
  writer_.end(observe::session_end_event(event_time(writer_.last_step()), status));
}

}  // namespace dtrain::role
