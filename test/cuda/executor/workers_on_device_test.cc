// Jobs of several workers without servers, whose devices are all in one group.
#include <thread>

#include "on_device_runs.h"
#include "support/catch.h"
#include "train/members.h"

using namespace dtrain;
using namespace dtrain::train::test;

namespace {

// Runs a job without servers whose workers' devices are all in one group, and keeps its results.
struct JobEnded {
  TempDir directory;
  std::vector<std::string> errors;              // by worker
  std::vector<std::vector<std::string>> lines;  // by worker
  std::string files, params;                    // of rank 0: all checkpoints, and only the last weights

  JobEnded(uint32_t workers, ToyOptions options, const std::function<void(train::TrainSpec&)>& change = nullptr)
      : errors(workers), lines(workers) {
    train::TrainSpec spec = toy_spec(directory.path("net"), 2);
    spec.disp_batches = 100;
    if (change) change(spec);
    const bool may_skip = spec.on_nan == job::OnNan::kSkip || spec.loss_scale.is_dynamic();
    Group group = make_group(workers * options.devices);
    options.workers = workers;
    options.make_store = [&](exec::DeviceGroup& executors, DeviceStoreOptions store, Waits& waits) {
      store.update_at = UpdateAt::kReplicas;
      store.samples_differ = may_skip;
      Group mine;
      for (size_t i = 0; i < executors.size(); i++) mine.push_back(std::move(group[i]));
      group.erase(group.begin(), group.begin() + static_cast<ptrdiff_t>(executors.size()));
      return make_store(std::move(mine), store.rule.optimizer, executors, store, waits);
    };
    Meetings meetings(workers);
    std::vector<std::unique_ptr<Member>> members;
    std::vector<std::unique_ptr<ToyRun>> runs;
    for (uint32_t w = 0; w < workers; w++) {
      options.rank = w;
      members.push_back(std::make_unique<Member>(meetings, w));
      runs.push_back(std::make_unique<ToyRun>(spec, options, members.back().get()));
    }
    run_all(runs);
    for (uint32_t w = 0; w < workers; w++) lines[w] = steady_lines(*runs[w], directory);
    files = checkpoints(directory);
    params = read_file(train::CheckpointName{directory.path("net"), 2}.params_path()).value_or("none");
  }

 private:
  void run_all(const std::vector<std::unique_ptr<ToyRun>>& runs) {
    std::vector<std::jthread> threads;
    for (size_t w = 0; w < runs.size(); w++) {
      threads.emplace_back([&, w] {
        const auto outcome = runs[w]->run();
        if (!outcome) errors[w] = outcome.error().text();
      });
    }
  }
};

void check_same(const JobEnded& a, const JobEnded& b) {
  CHECK(a.errors == b.errors);
  CHECK(a.lines == b.lines);
  CHECK(a.files == b.files);
}

bool says(const std::vector<std::string>& lines, const std::string& what) {
  return std::ranges::any_of(lines, [&](const auto& line) { return line.find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("devices of several workers give the same bits as sums on the hosts", "[cuda][kvstore]") {
  for (const size_t count : {1, 2}) {
    const auto run = [&](bool on_device) { return JobEnded(2, devices(count, UpdateAt::kReplicas, on_device)); };
    const JobEnded on_host = run(false), on_device = run(true);
    CHECK(on_host.errors == std::vector<std::string>(2));
    CHECK(on_host.files.find("none") == std::string::npos);
    check_same(on_device, on_host);
  }
}

// The first worker's share has the image with a NaN. Sums on the host count the other worker's samples, because that
// worker does not see them; the weights are the same.
TEST_CASE("all workers skip a step if the gradients on a device of one are not finite", "[cuda][kvstore]") {
  for (const size_t count : {1, 2}) {
    const auto run = [&](bool on_device) {
      return JobEnded(2, with_change(devices(count, UpdateAt::kReplicas, on_device), spoil_loss),
                      [](train::TrainSpec& spec) { spec.on_nan = job::OnNan::kSkip; });
    };
    const JobEnded on_host = run(false), on_device = run(true);
    CHECK(on_device.errors == std::vector<std::string>(2));
    CHECK(says(on_device.lines[0], "skipped, because the loss"));
    CHECK(says(on_device.lines[1], "skipped, because the gradient of 'fc"));
    CHECK(on_device.params == on_host.params);
  }
}

// Only the first worker's gradients overflow, but the scale is lowered for both.
TEST_CASE("all workers lower the loss scale if float16 overflows on a device of one", "[cuda][kvstore]") {
  for (const size_t count : {1, 2}) {
    ToyOptions options = devices(count, UpdateAt::kReplicas, true);
    options.dtype = Type::kFloat16;
    options.change = [](int64_t index, std::span<float> image) {
      if (index == 11) std::ranges::fill(image, 60.0F);
    };
    const JobEnded job(2, std::move(options),
                       [](train::TrainSpec& spec) { spec.loss_scale = *train::LossScale::parse("dynamic"); });
    CHECK(job.errors == std::vector<std::string>(2));
    const auto skips = [](const std::string& line) { return line.find("float16 overflowed") != std::string::npos; };
    std::vector<std::vector<std::string>> skipped(2);
    for (size_t w = 0; w < 2; w++) std::ranges::copy_if(job.lines[w], std::back_inserter(skipped[w]), skips);
    CHECK_FALSE(skipped[0].empty());
    CHECK(skipped[0] == skipped[1]);
  }
}
