
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "base/file.h"
#include "observe/tensorboard/event_file.h"
#include "observe/tensorboard/event_writer.h"
#include "observe/tensorboard/events.h"
#include "observe/tensorboard/scalar_sink.h"
#include "observe/tensorboard/tfrecord.h"
#include "observe/tensorboard/value_counts.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::observe;
using telemetry::Metric;
using test::must;
using test::TempDir;

namespace {

constexpr EventTime kTime{.wall_s = 1.5, .step = 3};

std::string event_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return text;
}

// The data of the records in a file's bytes. Throws if the bytes are not whole records.
std::vector<std::string> records_in(const std::string& bytes) {
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | static_cast<uint8_t>(bytes.at(at + static_cast<size_t>(i)));
    records.push_back(bytes.substr(at + 12, length));
    if (bytes.substr(at, length + 16) != tfrecord(records.back())) throw std::runtime_error("a broken record");
    at += length + 16;
  }
  return records;
}

std::vector<std::string> event_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

}  // namespace

// The records were written by TensorBoard's own RecordWriter.
TEST_CASE("records are framed as in TFRecord files", "[observe][tensorboard]") {
  CHECK(masked_crc32c("123456789") == 0xc78ab0e5);
  CHECK(event_hex(tfrecord("hello")) == "0500000000000000eab2043e68656c6c6fbb1f1c19");
  CHECK(event_hex(tfrecord("")) == "000000000000000029039807d8ea82a2");
}

// The bytes were made by TensorBoard's own message classes.
TEST_CASE("events have the bytes of TensorBoard's messages", "[observe][tensorboard]") {
  CHECK(event_hex(version_event(1.5)) == "09000000000000f83f1a0d627261696e2e4576656e743a32");
  CHECK(event_hex(start_event(kTime)) == "09000000000000f83f10033a020801");
  const std::vector<Scalar> scalars = {{.tag = "train/accuracy", .value = 0.25}};
  CHECK(event_hex(scalars_event(kTime, scalars)) ==
        "09000000000000f83f10032a170a150a0e747261696e2f6163637572616379150000803e");
  const ValueCounts counts{
      .count = 2, .min = -1, .max = 1, .sum = 0, .sum_squares = 2, .limits = {-0.5, 0.5, 1}, .counts = {1, 0, 1}};
  CHECK(
      event_hex(histogram_event(kTime, "w", counts)) ==
      "09000000000000f83f10032a5f0a5d0a01772a5809000000000000f0bf11000000000000f03f190000000000000040290000000000000040"
      "3218000000000000e0bf000000000000e03f000000000000f03f3a18000000000000f03f0000000000000000000000000000f03f");
  CHECK(event_hex(picture_event(kTime, "p", {.height = 2, .width = 3, .file = {'p', 'n', 'g'}})) ==
        "09000000000000f83f10032a120a100a0170220b0802100318032203706e67");
  CHECK(event_hex(text_event(kTime, "t", "x")) ==
        "09000000000000f83f10032a1a0a180a01744207080712004201784a0a0a060a04746578742002");
}

TEST_CASE("the network is a GraphDef with the sizes of outputs", "[observe][tensorboard]") {
  const std::vector<GraphNode> relu = {
      {.name = "a/b", .op = "Relu", .device = "cpu(0)", .inputs = {"x"}, .attributes = {{"k", "v"}}}};
  CHECK(event_hex(graph_event(kTime, relu)) ==
        "09000000000000f83f100322260a200a03612f62120452656c751a017822066370752830292a080a016b120312017622020816");
  const std::vector<GraphNode> input = {{.name = "x", .op = "Input", .device = "", .shape = {{-1, 3}}}};
  CHECK(event_hex(graph_event(kTime, input)) ==
        "09000000000000f83f100322390a330a01781205496e7075742a270a0e5f6f75747075745f73686170657312150a133a11120b08ffffff"
        "ffff"
        "ffffffff011202080322020816");
}

TEST_CASE("hyperparameters are written for the hparams plugin", "[observe][tensorboard]") {
  const std::vector<HyperParameter> rate = {{.name = "lr", .value = 0.1, .description = "rate"}};
  const std::vector<Scalar> result = {{.tag = "a/b", .description = "acc"}};
  CHECK(event_hex(experiment_event(kTime, rate, result)) ==
        "09000000000000f83f10032a4f0a4d0a145f68706172616d735f2f6578706572696d656e7442060801120212004a2d0a290a0768706172"
        "616d"
        "73121e121c220c0a026c721a047261746520032a0c0a051203612f6222036163632002");
  CHECK(event_hex(session_start_event(kTime, rate)) ==
        "09000000000000f83f10032a550a530a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f42060801120212004a2b"
        "0a27"
        "0a0768706172616d73121c1a1a0a0f0a026c721209119a9999999999b93f29000000000000f83f2002");
  CHECK(event_hex(session_end_event(kTime, SessionStatus::kSuccess)) ==
        "09000000000000f83f10032a440a420a1a5f68706172616d735f2f73657373696f6e5f656e645f696e666f42060801120212004a1c0a18"
        "0a07"
        "68706172616d73120d220b080111000000000000f83f2002");
  // One message of each type of value.
  const std::vector<HyperParameter> others = {{.name = "mirror", .value = true}, {.name = "network", .value = "lenet"}};
  CHECK_THAT(session_start_event(kTime, others), Catch::Contains("network") && Catch::Contains("lenet"));
  CHECK(session_end_event(kTime, SessionStatus::kFailure) != session_end_event(kTime, SessionStatus::kSuccess));
}

// Every value must lie in its bucket. The expected counts come from a plain loop over the limits.
TEST_CASE("buckets have the values between their limits", "[observe][tensorboard]") {
  std::vector<float> values = {0, -0.0f, 1, -1, 1e-20f, -1e-20f, 3e38f, -3e38f, 1.0f / 3, -1.0f / 3};
  for (int i = 0; i < 1000; i++)
    values.push_back(std::sin(static_cast<float>(i)) * std::exp(0.02f * static_cast<float>(i)));
  const ValueCounts counted = count_values(values);
  CHECK(counted.count == values.size());
  CHECK(counted.not_finite == 0);
  CHECK(counted.min == Approx(-3e38));
  CHECK(counted.max == Approx(3e38));
  CHECK(counted.sum_squares > 1e76);
  REQUIRE(counted.limits.size() == counted.counts.size());
  CHECK(std::ranges::is_sorted(counted.limits));
  double below = -std::numeric_limits<double>::max();
  for (size_t i = 0; i < counted.limits.size(); i++) {
    const double limit = counted.limits[i];
    const auto inside = static_cast<uint64_t>(std::ranges::count_if(values, [&](float value) {
      // A value on a limit belongs to the bucket that is farther from 0.
      return value < 0 ? below < value && value <= limit : below <= value && value < limit;
    }));
    CHECK(counted.counts[i] == inside);
    if (i > 0) CHECK((counted.counts[i] > 0 || counted.counts[i - 1] > 0));  // no two empty ones
    below = limit;
  }
}

TEST_CASE("values that are not finite are in no bucket", "[observe][tensorboard]") {
  const float infinite = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {nan, infinite, -infinite, 2};
  const ValueCounts counted = count_values(values);
  CHECK(counted.count == 1);
  CHECK(counted.not_finite == 3);
  CHECK(counted.min == 2);
  CHECK(counted.max == 2);
  CHECK(counted.counts.back() == 1);
  const ValueCounts none = count_values(std::span(values).first(3));
  CHECK(none.count == 0);
  CHECK(none.limits.empty());
  CHECK(count_values({}).count == 0);
}

TEST_CASE("curves are grouped by what they are of", "[observe][tensorboard]") {
  const auto tag = [](Metric metric, const std::string& label = "", bool of_epoch = false) {
    return scalar_tag({metric, 0, label, of_epoch}).value_or("none");
  };
  CHECK(tag(Metric::kTrainAccuracy) == "train/accuracy");
  CHECK(tag(Metric::kTrainCrossEntropy) == "train/cross_entropy");
  CHECK(tag(Metric::kTrainAccuracy, "", true) == "train_epoch/accuracy");
  CHECK(tag(Metric::kTrainMetric, "top_k_accuracy_5", true) == "train_epoch/top_k_accuracy_5");
  CHECK(tag(Metric::kTrainMetric, "top_k_accuracy_5") == "train/top_k_accuracy_5");
  CHECK(tag(Metric::kValidationAccuracy) == "validation/accuracy");
  CHECK(tag(Metric::kLearningRate) == "rate/lr");
  CHECK(tag(Metric::kSamplesPerS) == "speed/samples_per_s");
  CHECK(tag(Metric::kPhaseSeconds, "forward") == "time/forward_s");
  CHECK(tag(Metric::kWaitDataShare) == "time/wait_data_share");
  CHECK(tag(Metric::kDecodeMs) == "data/decode_ms");
  CHECK(tag(Metric::kSentBytes, "server 0") == "exchange/sent_bytes/server 0");
  CHECK(tag(Metric::kMemoryBytes) == "process/memory_bytes");
  CHECK(tag(Metric::kTimeToAccuracy) == "none");
  // No two metrics share a curve.
  std::set<std::string> tags;
  for (const telemetry::MetricInfo& info : telemetry::catalogue()) {
    const std::string own = tag(info.metric, info.label.empty() ? "" : std::string(info.name));
    if (own != "none") CHECK(tags.insert(own).second);
  }
}

// The file must have, in this order, the version, the step after which older files are void, and the events. The end is
// in a file of its own, which the next writer removes.
TEST_CASE("a writer's events are in its file, and the end in another", "[observe][tensorboard]") {
  const TempDir dir;
  const std::string directory = dir.path("tensorboard/worker-0");
  const EventWriterOptions options{.directory = directory, .host = "node7", .pid = 12, .log = Log::silent()};
  {
    EventWriter unused(options);
    unused.end("never");
  }
  CHECK_FALSE(std::filesystem::exists(directory));
  {
    EventWriter writer(options);
    CHECK_FALSE(writer.continues());
    for (int i = 0; i < 100; i++) writer.add(7, fmt::format("event {}", i));
    writer.add(9, [] { return std::string(); });
    CHECK(writer.last_step() == 9);
    writer.end("the end");
  }
  std::vector<std::string> files = event_files(directory);
  REQUIRE(files.size() == 2);
  CHECK(files[0].find("/events.out.tfevents.") != std::string::npos);
  CHECK(files[0].ends_with(".node7.12"));
  CHECK(files[1] == files[0] + ".end");
  const std::vector<std::string> records = records_in(must(read_file(files[0])));
  REQUIRE(records.size() == 102);
  CHECK_THAT(records[0], Catch::Contains("brain.Event:2"));
  CHECK(records[1].ends_with(start_event({.wall_s = 0, .step = 8})));
  for (size_t i = 0; i < 100; i++) CHECK(records[i + 2] == fmt::format("event {}", i));
  const std::vector<std::string> end = records_in(must(read_file(files[1])));
  REQUIRE(end.size() == 2);
  CHECK(end[1] == "the end");
  {
    EventWriter resumed(options);
    CHECK(resumed.continues());
    resumed.add(9, "more");
  }
  files = event_files(directory);
  CHECK(std::ranges::none_of(files, [](const std::string& file) { return file.ends_with(".end"); }));
}

// Fails the n-th system call, for every n. There must be one warning, which names the file and the cause, and the file
// must end with a whole record.
TEST_CASE("a full disk ends the events, not the training", "[observe][tensorboard]") {
  for (int fatal = 0; fatal < 12; fatal++) {
    INFO("call " << fatal);
    const TempDir dir;
    Log log = Log::silent();
    must(log.add_file(dir.path("log")));
    int calls = 0;
    {
      EventWriter writer({.directory = dir.path("events"), .host = "h", .log = log, .fault = [&](const char*) {
                            return calls++ == fatal ? ENOSPC : 0;
                          }});
      for (int i = 0; i < 6; i++) writer.add(1, std::string(1000, 'x'));
      writer.end("end");
    }
    log.flush();
    const std::string text = must(read_file(dir.path("log")));
    const bool failed = fatal < calls;
    CHECK(count_of(text, "No space left on device") == (failed ? 1 : 0));
    CHECK(count_of(text, "events.out.tfevents.") == (failed ? 1 : 0));
    if (!std::filesystem::exists(dir.path("events"))) continue;
    for (const std::string& file : event_files(dir.path("events"))) CHECK_NOTHROW(records_in(must(read_file(file))));
  }
}

TEST_CASE("a directory that cannot be made is one warning", "[observe][tensorboard]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("tensorboard"), "a file"));
  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  {
    EventWriter writer({.directory = dir.path("tensorboard/worker-0"), .host = "h", .log = log});
    for (int i = 0; i < 3; i++) writer.add(1, "event");
    writer.end("end");
  }
  log.flush();
  const std::string text = must(read_file(dir.path("log")));
  CHECK(count_of(text, "cannot write") == 1);
  CHECK_THAT(text, Catch::Contains("Not a directory") && Catch::Contains(dir.path("tensorboard/worker-0")));
}

// Only the first value of a tag has the description, and phases are shown as differences.
TEST_CASE("a record becomes one event with its scalars", "[observe][tensorboard]") {
  const TempDir dir;
  {
    EventWriter writer({.directory = dir.path("events"), .host = "h", .log = Log::silent()});
    ScalarSink sink(writer);
    const auto record = [](double phase_s, uint64_t step) {
      return telemetry::Record{.epoch = 0,
                               .step = step,
                               .values = {{Metric::kLearningRate, 0.5}, {Metric::kPhaseSeconds, phase_s, "forward"}}};
    };
    must(sink.write(record(2, 10)));
    must(sink.write(record(5, 20)));
    must(sink.write({.epoch = 0, .step = 30, .values = {{Metric::kAccuracy, 0.5}}}));  // makes no curve
  }
  const std::vector<std::string> files = event_files(dir.path("events"));
  REQUIRE(files.size() == 1);
  const std::vector<std::string> records = records_in(must(read_file(files[0])));
  REQUIRE(records.size() == 4);
  CHECK_THAT(records[2], Catch::Contains("rate/lr") && Catch::Contains("The learning rate"));
  CHECK_THAT(records[3], Catch::Contains("rate/lr") && !Catch::Contains("The learning rate"));
  const std::vector<Scalar> second = {{.tag = "rate/lr", .value = 0.5}, {.tag = "time/forward_s", .value = 3}};
  CHECK(records[3].substr(9) == scalars_event({.wall_s = 0, .step = 20}, second));
}
