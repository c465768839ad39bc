#include "cluster/changing_job.h"

#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/process_of_job.h"

namespace dtrain::test {

ChangingJobs::ChangingJobs(std::string policy, std::vector<std::string> kind)
    : policy_(std::move(policy)), kind_(std::move(kind)) {
  make_images(dir_.path("data"));
  REQUIRE(write_file_atomic(dir_.path("groups"), "#0 #1\n#2\n"));
}

std::vector<std::string> ChangingJobs::command(const std::string& run_dir, const std::vector<std::string>& more) const {
  return command_line(dtrain_program(),
                      "-n 3 -s 2 --network lenet --data-dir data --seed 7 --threads 1 --lr 0.01 --num-epochs 10 "
                      "--batch-size 4 --disp-batches 2 --heartbeat-interval 1s --heartbeat-timeout 3s "
                      "--on-worker-loss",
                      policy_, "--run-dir", dir_.path(run_dir), kind_, more);
}

Ended ChangingJobs::run(const std::string& run_dir, const std::vector<std::string>& more) const {
  return test::run(command(run_dir, more), options());
}

Ended ChangingJobs::ask(const std::vector<std::string>& arguments) const {
  return test::run(command_line(dtrain_program(), arguments), options());
}

std::string ChangingJobs::text_of(const std::string& name) const {
  return read_file(path(name)).value_or("");
}

nlohmann::json ChangingJobs::summary(const std::string& run_dir) const {
  return parse_json(text_of(run_dir + "/summary.json"));
}

std::string ChangingJobs::changes(const std::string& run_dir) const {
  std::string text;
  const nlohmann::json all = summary(run_dir);
  for (const nlohmann::json& change : all.at("changes")) {
    text += (text.empty() ? "" : ", ") + change.at("process").get<std::string>() + " " +
            change.at("change").get<std::string>();
  }
  return text;
}

std::map<std::string, pid_t> ChangingJobs::survivors(const std::string& run_dir, uint64_t lost) const {
  std::map<std::string, pid_t> pids;
  for (uint64_t rank = 0; rank < kWorkers; rank++) {
    if (rank != lost) pids["worker " + std::to_string(rank)] = process_of_job(path(run_dir), "worker", rank);
  }
  for (uint64_t rank = 0; rank < 2; rank++) {
    pids["server " + std::to_string(rank)] = process_of_job(path(run_dir), "server", rank);
  }
  return pids;
}

ProcessOptions ChangingJobs::options() const {
  return {.deadline_s = kRunSeconds,
          .directory = dir_.path(),
          .environment = {"XDG_RUNTIME_DIR=" + dir_.path(), "XDG_STATE_HOME=" + dir_.path("state")}};
}

}  // namespace dtrain::test
