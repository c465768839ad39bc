#include "graph/models/models.h"
#include "lesson.h"
#include "modes.h"
#include "speed.h"
#include "stages.h"

namespace dtrain::gpu {

namespace {

Result<Outcome> teach(Machine& machine, const Settings& settings, const std::string& images_name, const Lesson& lesson,
                      const Mode& mode) {
  if (settings.data.empty()) return fail(Code::kNotFound, "no directory with images: --data");
  DT_TRY(const LabeledImages images, read_images(settings.data, images_name));
  machine.use();
  exec::Options options;
  options.threads = settings.threads;
  DT_TRY(const Progress progress, learn(machine.backend(), lesson, images, mode.options(options)));
  const double training = progress.training_accuracy.back();
  const Json numbers = {{"training_accuracy", progress.training_accuracy},
                        {"inference_accuracy", progress.inference_accuracy},
                        {"training_accuracy_min", lesson.training_accuracy},
                        {"inference_accuracy_min", lesson.inference_accuracy}};
  const std::string text = fmt::format(
      "{} epochs: training {:.4f} (at least {}), the same images by inference {:.4f} (at least {})", lesson.epochs,
      training, lesson.training_accuracy, progress.inference_accuracy, lesson.inference_accuracy);
  const bool learned = training >= lesson.training_accuracy && progress.inference_accuracy >= lesson.inference_accuracy;
  return learned ? passed(text, numbers) : failed(text, numbers);
}

Part teach_part(Machine& machine, const Settings& settings, const std::string& images, const Lesson& lesson,
                const Mode& mode) {
  return {fmt::format("{} learns {} in {}", lesson.network, images, mode.name),
          [&machine, settings, images, lesson, mode] { return teach(machine, settings, images, lesson, mode); }};
}

struct Race {
  const char* network;
  const char* mode;
  int64_t batch;
};
// Mostly float16, which is the usual type for training on these devices, and the other types with one batch size. The
// most informative ones come first.
constexpr Race kRaces[] = {
    {"resnet-50", "float16", 256},    {"inception-bn", "float16", 256},  {"resnet-v1.5-50", "float16", 256},
    {"resnet-v1-50", "float16", 256}, {"resnet-50", "float16", 128},     {"resnet-50", "float16", 192},
    {"inception-bn", "float16", 128}, {"inception-bn", "float16", 192},  {"resnet-50", "bfloat16", 256},
    {"resnet-50", "tf32", 256},       {"inception-bn", "bfloat16", 256}, {"inception-bn", "tf32", 256}};

Result<Outcome> race(Machine& machine, const Race& race) {
  const Shape image = {3, 224, 224};
  DT_TRY(graph::Graph graph, graph::build_model({.network = race.network, .num_classes = 1000, .image = image}));
  machine.use();
  const exec::Options options = mode_of(race.mode).options({.batch_size = race.batch, .inputs = {{.shape = image}}});
  DT_TRY(const Speed speed, measure_speed(machine, {.graph = std::move(graph), .options = options}));
  constexpr double kGiB = 1 << 30;
  return passed(
      fmt::format("{:.0f} images/s, {:.2f} GiB of the device, {:.2f} GiB planned", speed.images_per_s,
                  static_cast<double>(speed.device_bytes) / kGiB, static_cast<double>(speed.planned_bytes) / kGiB),
      {{"images_per_s", speed.images_per_s},
       {"images_per_s_brought", speed.images_per_s_brought},
       {"slowest_share", speed.slowest_share},
       {"device_bytes", speed.device_bytes},
       {"planned_bytes", speed.planned_bytes}});
}

}  // namespace

Part rate_part(Machine& machine, const std::string& network) {
  return {network + " float16 batch 256", [&machine, network] {
            return race(machine, {network.c_str(), "float16", 256});
          }};
}

std::vector<Part> train_parts(Machine& machine, const Settings& settings) {
  std::vector<Part> rates, others, parts;
  for (const Race& r : kRaces) {
    std::vector<Part>& of_mode = std::string(r.mode) == "float16" ? rates : others;
    of_mode.push_back(
        {fmt::format("{} {} batch {}", r.network, r.mode, r.batch), [&machine, r] { return race(machine, r); }});
  }
  for (const Part& part : rates) parts.push_back(part);
  for (const Mode& mode : kModes) parts.push_back(teach_part(machine, settings, "mnist", mnist_lesson(), mode));
  for (const Mode& mode : kModes) parts.push_back(teach_part(machine, settings, "cifar10", cifar_lesson(), mode));
  for (const Part& part : others) parts.push_back(part);
  return parts;
}

}  // namespace dtrain::gpu
