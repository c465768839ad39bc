
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "observe/tensorboard/event_file.h"
#include "observe/tensorboard/event_writer.h"
#include "observe/tensorboard/events.h"
#include "observe/tensorboard/scalar_sink.h"
#include "observe/tensorboard/tfrecord.h"
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

// The file must have, in this order, the version, the step after which older files are void, and the events.
TEST_CASE("a writer's events are in its file", "[observe][tensorboard]") {
  const TempDir dir;
  const std::string directory = dir.path("tensorboard/worker-0");
  const EventWriterOptions options{.directory = directory, .host = "node7", .pid = 12, .log = Log::silent()};
  { const EventWriter unused(options); }
  CHECK_FALSE(std::filesystem::exists(directory));
  {
    EventWriter writer(options);
    for (int i = 0; i < 100; i++) writer.add(7, fmt::format("event {}", i));
  }
  const std::vector<std::string> files = event_files(directory);
  REQUIRE(files.size() == 1);
  CHECK(files[0].find("/events.out.tfevents.") != std::string::npos);
  CHECK(files[0].ends_with(".node7.12"));
  const std::vector<std::string> records = records_in(must(read_file(files[0])));
  REQUIRE(records.size() == 102);
  CHECK_THAT(records[0], Catch::Contains("brain.Event:2"));
  CHECK(records[1].ends_with(start_event({.wall_s = 0, .step = 8})));
  for (size_t i = 0; i < 100; i++) CHECK(records[i + 2] == fmt::format("event {}", i));
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
    ScalarSink sink({.directory = dir.path("events"), .host = "h", .log = Log::silent()});
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
