// Lines of training logs of all eras (docs/formats.md, "Log lines").
#include "observe/runs/log_line.h"

#include <cmath>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::observe;
using LineKind = TrainingLine::Kind;

namespace {

TrainingLine training_line(std::string_view text) {
  const std::optional<TrainingLine> line = read_training_line(text);
  INFO(text);
  REQUIRE(line);
  return *line;
}

}  // namespace

TEST_CASE("a line has a time, a node and a text", "[observe]") {
  const SplitLine plain = split_log_line("2016-05-12 10:11:12,345 Node[3] Epoch[0] Time cost=12.346\r");
  CHECK(plain.time == 1463047872.345);
  CHECK(plain.node == "3");
  CHECK(plain.rank == 3);
  CHECK(plain.text == "Epoch[0] Time cost=12.346");
  const SplitLine launched = split_log_line("[server 1 node7] 2026-01-01 10:00:05,001 Node[server 1] joined");
  CHECK(launched.time);
  CHECK(launched.node == "server 1");
  CHECK_FALSE(launched.rank);
  CHECK(launched.text == "joined");
  CHECK(split_log_line("INFO:root:Epoch[0] Train-accuracy=0.5").text == "Epoch[0] Train-accuracy=0.5");
  CHECK(split_log_line("WARNING:root:beware").text == "WARNING:root:beware");
  CHECK(split_log_line("2018-01-01 10:00:05,001 Epoch[0] x").text == "Epoch[0] x");
  for (const char* odd :
       {"", "Node[", "Node[]", "2016-13-12 10:11:12,345 Node[x] x", "x Node[99999999999999999999] y"}) {
    CHECK_FALSE(split_log_line(odd).time);
    CHECK_FALSE(split_log_line(odd).rank);
  }
}

TEST_CASE("speed lines of every version are read", "[observe]") {
  // MXNet 0.7 to 0.9, 0.10 to 1.3, 1.4 and later, and without metrics.
  const TrainingLine old = training_line("Epoch[2] Batch [50]\tSpeed: 1234.57 samples/sec\tTrain-accuracy=0.101562");
  CHECK(old.kind == LineKind::kWindow);
  CHECK(old.epoch == 2);
  CHECK(old.batch == 50);
  CHECK(old.speed == 1234.57);
  REQUIRE(old.values.size() == 1);
  CHECK(old.values[0] == std::pair<std::string_view, double>("accuracy", 0.101562));
  const TrainingLine middle =
      training_line("Epoch[0] Batch [20]\tSpeed: 9 samples/sec\taccuracy=nan\tcross-entropy=2.3");
  REQUIRE(middle.values.size() == 2);
  CHECK(std::isnan(middle.values[0].second));
  CHECK(middle.values[1].first == "cross-entropy");
  CHECK(training_line("Epoch[0] Batch [20-40]\tSpeed: 9 samples/sec\taccuracy=1").batch == 40);
  CHECK(training_line("Iter[1] Batch [60]\tSpeed: inf samples/sec").values.empty());
  CHECK(training_line("Iter[1] Batch[60] Train-accuracy=0.5").batch == 60);
}

TEST_CASE("lines about epochs are read", "[observe]") {
  CHECK(training_line("Epoch[3] Train-top_k_accuracy_5=0.5").values[0].first == "top_k_accuracy_5");
  CHECK(training_line("Epoch[3] Validation-accuracy=0.300000").kind == LineKind::kValidation);
  CHECK(training_line("Epoch[3] Batch [99] Validation-accuracy=0.28").batch == 99);
  const TrainingLine time = training_line("Epoch[3] Time cost=12.346");
  CHECK(time.kind == LineKind::kTime);
  CHECK(time.values[0].second == 12.346);
  for (const char* odd : {"", "Epoch[", "Epoch[x] Train-a=1", "Epoch[0] data is the limit: 41 %",
                          "Epoch[0] Train-accuracy=", "Epoch[0] Train-accuracy=1.2.3", "Epoch[0] Batch [",
                          "Epoch[0] Batch [3-]\tSpeed: 1 samples/sec", "Epoch[0] Batch [3]\tSpeed: fast samples/sec",
                          "Epoch[99999999999999999999] Train-a=1"}) {
    INFO(odd);
    CHECK_FALSE(read_training_line(odd));
  }
}

TEST_CASE("rates, arguments and batches are read", "[observe]") {
  const std::optional<RateLine> rate = read_rate_line("Update[391]: Change learning rate to 9.40000e-02");
  REQUIRE(rate);
  CHECK(rate->update == 391);
  CHECK(rate->rate == 0.094);
  CHECK(read_rate_line("Update[5]: now learning rate arrived at 1.00000e-08, will not change in the future")->rate ==
        1e-8);
  CHECK_FALSE(read_rate_line("Update[5]: Change learning rate to much"));
  const auto mxnet = read_arguments(
      "start with arguments Namespace(batch_size=128, data_dir='a, b', gpus=None, lr_step_epochs='10,20')");
  CHECK(mxnet == std::map<std::string, std::string>{
                     {"batch-size", "128"}, {"data-dir", "a, b"}, {"gpus", "None"}, {"lr-step-epochs", "10,20"}});
  const auto own = read_arguments("start with arguments network=lenet, rgb-mean=1,2,3, lr=0.05");
  CHECK(own == std::map<std::string, std::string>{{"lr", "0.05"}, {"network", "lenet"}, {"rgb-mean", "1,2,3"}});
  CHECK(read_arguments("Namespace(depth=50, lr=0.1)") ==
        std::map<std::string, std::string>{{"depth", "50"}, {"lr", "0.1"}});
  CHECK(read_arguments("start").empty());
  CHECK(read_batches_per_machine("Resizing training data to 390 batches per machine") == 390);
  CHECK_FALSE(read_batches_per_machine("Resizing training data to 390 apples"));
}

TEST_CASE("lines about trouble are found by their words", "[observe]") {
  CHECK(severity_of("error [not found] a.rec: no such file") == Severity::kError);
  CHECK(severity_of("ERROR:root:out of memory") == Severity::kError);
  CHECK(severity_of("warning: skipped broken record 1 (--max-bad-records 100): a.rec") == Severity::kWarning);
  CHECK(severity_of("WARNING:root:lost a worker") == Severity::kWarning);
  CHECK(severity_of("Saved checkpoint to \"errors-0001.params\"") == Severity::kNone);
  CHECK(severity_of("start with arguments on-nan=fail, error=1") == Severity::kNone);
  CHECK(severity_of("Epoch[0] Train-error=0.5") == Severity::kNone);
  CHECK(severity_of("server 0 made 3 updates from 6 gradients and was busy for 0.5 s; it dropped 0 repeated gradients "
                    "and 0 late gradients, and refused 0 messages") == Severity::kNone);
}

// Every beginning of every line, and every byte of them changed: the functions return, and read nothing out of
// bounds.
TEST_CASE("lines that are cut or changed do no harm", "[observe]") {
  const std::string lines[] = {
      "2016-05-12 10:11:12,345 Node[3] Epoch[2] Batch [0-50]\tSpeed: 1234.57 samples/sec\ta=0.1\tb=1",
      "2016-05-12 10:11:12,345 Node[0] Epoch[3] Validation-accuracy=0.300000",
      "INFO:root:Update[391]: Change learning rate to 9.40000e-02",
      "Node[0] start with arguments Namespace(a='b', c=[1, 2])"};
  const auto read_all = [](std::string_view line) {
    const std::string_view text = split_log_line(line).text;
    size_t found = read_training_line(text) ? 1 : 0;
    found += read_rate_line(text) ? 1 : 0;
    found += read_arguments(text).size();
    found += find_speed(text) ? 1 : 0;
    return found + (severity_of(text) == Severity::kNone ? 0 : 1);
  };
  for (std::string line : lines) {
    CHECK(read_all(line) > 0);
    for (size_t i = 0; i < line.size(); i++) {
      (void)read_all(std::string_view(line).substr(0, i));
      for (const char odd : {'\0', '\xff', '=', '[', ']', '\'', '9', ' '}) {
        const char before = std::exchange(line[i], odd);
        (void)read_all(line);
        line[i] = before;
      }
    }
  }
}
