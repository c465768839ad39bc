// gpu_check: the program that scripts/gpu-check runs on a machine with a GPU. It needs only CUDA's driver, cuDNN and
// NCCL.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>

#include "report.h"
#include "stages.h"

namespace dtrain::gpu {

namespace {

constexpr const char* kUsage = R"(usage: gpu_check COMMAND --results DIR [--results DIR...] [OPTIONS]
  quick | train | nets | ops | copies   runs a stage: the parts that the report does not hold yet
  blocking STAGE                runs the parts that failed once more, for a process with CUDA_LAUNCH_BLOCKING=1
  merge DIR                     merges the reports in DIR into those in the first --results; needs no GPU
  plan                          prints the stages and how many parts each has; needs no GPU and no report
  small                         runs a few operators, for compute-sanitizer; no report
  record STAGE                  takes parts from stdin, a JSON object a line: name, status, text, numbers
  held STAGE                    prints the names of the parts that are not to be begun again
  killed STAGE                  writes down that the part that was running was killed
  table                         prints the report
  --results DIR       where the report is: read from the first that has it, written to all
  --commit HASH       whose program this is; --driver VERSION the device's
  --data DIR          images for train;  --plans FILE   where cuDNN's plans are kept
  --plan-seconds N    no plan of a network is measured later (60)
  --seconds N         no part of the stage begins later (360);  --part-seconds N   a longer one hangs (120)
  --threads N         for the reference, in nets (all cores)
  --only TEXT         parts with this in their names
  --again             forgets what the report holds of the stage
exit code: 0 all passed, 1 not, 2 usage, 7 files, 8 no GPU, 9 the device is lost or a part hung: again for the rest
)";
constexpr int kUsageCode = 2, kFilesCode = 7, kNoDeviceCode = 8, kLostCode = 9;

struct Arguments {
  std::string command, stage;
  std::vector<std::string> results;
  std::string commit = "unknown", driver = "unknown";
  PlanFile plans;
  Settings settings;
  bool again = false;
};

// Reads the value of a flag that takes one.
bool read_flag(Arguments& a, const std::string& flag, const std::string& value) {
  if (flag == "--results")
    a.results.push_back(value);
  else if (flag == "--commit")
    a.commit = value;
  else if (flag == "--driver")
    a.driver = value;
  else if (flag == "--plans")
    a.plans.path = value;
  else if (flag == "--plan-seconds")
    a.plans.measuring_seconds_max = std::atof(value.c_str());
  else if (flag == "--data")
    a.settings.data = value;
  else if (flag == "--only")
    a.settings.only = value;
  else if (flag == "--threads")
    a.settings.threads = std::atoi(value.c_str());
  else if (flag == "--seconds")
    a.settings.seconds = std::atof(value.c_str());
  else if (flag == "--part-seconds")
    a.settings.part_seconds = std::atof(value.c_str());
  else
    return false;
  return true;
}

Result<Arguments> parse(std::vector<std::string> words) {
  Arguments a;
  a.settings.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (size_t i = 0; i < words.size(); i++) {
    if (words[i] == "--again") {
      a.again = true;
    } else if (words[i].starts_with("--")) {
      if (i + 1 == words.size() || words[i + 1].starts_with("--") || !read_flag(a, words[i], words[i + 1])) {
        return fail(Code::kUsage, "{}: unknown, or without a value", words[i]);
      }
      i++;
    } else {
      (a.command.empty() ? a.command : a.stage) = words[i];
    }
  }
  if (a.command.empty() || (a.results.empty() && a.command != "small" && a.command != "plan")) {
    return fail(Code::kUsage, "what, and where?");
  }
  if (a.settings.threads < 1 || a.settings.seconds <= 0 || a.settings.part_seconds <= 0 ||
      a.plans.measuring_seconds_max <= 0) {
    return fail(Code::kUsage, "--threads, --seconds, --part-seconds and --plan-seconds are above 0");
  }
  return a;
}

std::vector<Part> parts_of(const std::string& stage, Machine& machine, const Settings& settings) {
  std::vector<Part> all;
  if (stage == "quick") all = quick_parts(machine, settings);
  if (stage == "ops") all = ops_parts(machine);
  if (stage == "nets") all = nets_parts(machine);
  if (stage == "train") all = train_parts(machine, settings);
  if (stage == "copies") all = copies_parts(machine);
  std::erase_if(all, [&](const Part& part) { return part.name.find(settings.only) == std::string::npos; });
  return all;
}

Result<int> run_stage(const Arguments& a, Machine& machine, Report& report) {
  const std::vector<Part> parts = parts_of(a.command, machine, a.settings);
  if (parts.empty()) return fail(Code::kUsage, "no such stage or part: {} {}", a.command, a.settings.only);
  if (a.again) DT_TRY_VOID(report.forget(a.command));
  // Only the reference of nets benefits from threads; elsewhere the parts use the device one after the other.
  const PartLimits limits{.stage_s = a.settings.seconds,
                          .part_s = a.settings.part_seconds,
                          .threads = a.command == "nets" ? a.settings.threads : 1};
  DT_TRY(const StageEnd end, run_parts(report, machine, a.command, parts, limits, kLostCode));
  if (end == StageEnd::kDeviceLost) return kLostCode;
  return report.all_passed(a.command) ? 0 : 1;
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> all) {
  return std::ranges::any_of(all, [&](const char* one) { return text == one; });
}

// Records parts that other programs ran, one per line.
Result<int> record(const Arguments& a, Report& report) {
  for (std::string line; std::getline(std::cin, line);) {
    Json part = Json::parse(line, nullptr, false);
    const std::string status = part.is_object() ? part.value("status", "") : "";
    if (!part.contains("name") || !is_one_of(status, {"passed", "failed", "missing", "killed"})) {
      std::cout << line << "\n";  // not a part: passed through for the reader
      continue;
    }
    const std::string name = part["name"], text = part.value("text", "");
    const double seconds = part.value("seconds", 0.0);
    for (const char* known : {"name", "status", "text", "seconds"}) part.erase(known);
    DT_TRY_VOID(report.end(a.stage, name, status, seconds, text, part));
  }
  return report.all_passed(a.stage) ? 0 : 1;
}

Result<int> run_small(Machine& machine) {
  int code = 0;
  for (const Part& part : small_parts(machine)) {
    const Result<Outcome> outcome = part.run();
    const bool good = outcome && outcome->status == Outcome::Status::kPassed;
    if (!good) code = 1;
    std::cout << part.name << ": " << (good ? "passed" : outcome ? outcome->text : outcome.error().text()) << std::endl;
  }
  return code;
}

// Stands in for the machine where only the names of parts are needed.
class AbsentMachine final : public Machine {
 public:
  [[nodiscard]] const Facts& facts() const override { return facts_; }
  exec::Backend& backend() override { throw std::logic_error("a device is wanted where only names are"); }
  void use() override {}
  Result<> synchronise() override { return {}; }
  MemoryUse memory() override { return {}; }
  Result<> nccl_alone() override { return {}; }
  Result<CopyRates> copy_rates() override { return CopyRates{}; }
  std::string module_path() override { return ""; }

 private:
  Facts facts_;
};

// `a.stage` is the directory.
Result<int> merge(const Arguments& a) {
  DT_TRY(const std::vector<std::string> names, merge_reports(a.stage, a.results[0]));
  for (const std::string& name : names) std::cout << a.results[0] << "/" << name << ".txt\n";
  return 0;
}

int print_plan(const Settings& settings) {
  AbsentMachine machine;
  for (const char* stage : {"quick", "train", "copies", "nets", "ops"}) {
    const std::vector<Part> parts = parts_of(stage, machine, settings);
    std::cout << fmt::format("{:8} {:4} parts, from '{}' to '{}'\n", stage, parts.size(), parts.front().name,
                             parts.back().name);
  }
  return 0;
}

Result<int> run(const Arguments& a) {
  if (a.command == "plan") return print_plan(a.settings);
  if (a.command == "merge") return merge(a);
  DT_TRY(const std::unique_ptr<Machine> machine, open_machine(a.plans, Log::to_stderr("gpu-check")));
  if (a.command == "small") return run_small(*machine);
  DT_TRY(Report report, Report::open(a.results, {.device = machine->facts(), .driver = a.driver, .commit = a.commit}));
  if (a.command == "record") return record(a, report);
  if (a.command == "killed") {
    DT_TRY_VOID(report.kill_running(a.stage, "killed: its time was over"));
    return 0;
  }
  if (a.command == "held") {
    for (const std::string& part : report.ended(a.stage)) std::cout << part << "\n";
    return 0;
  }
  if (a.command == "table") {
    std::cout << report.table();
    return 0;
  }
  if (a.command == "blocking") {
    const PartLimits limits{.stage_s = a.settings.seconds, .part_s = a.settings.part_seconds};
    DT_TRY_VOID(run_failed_parts(report, a.stage, parts_of(a.stage, *machine, a.settings), limits, kLostCode));
    return 0;
  }
  return run_stage(a, *machine, report);
}

int exit_code(const Error& error) {
  switch (error.code) {
    case Code::kUsage: return kUsageCode;
    case Code::kData: return kFilesCode;
    case Code::kDevice: return kNoDeviceCode;
    default: return 1;
  }
}

}  // namespace

}  // namespace dtrain::gpu

int main(int argc, char** argv) {
  using namespace dtrain;
  using namespace dtrain::gpu;
  const Result<Arguments> arguments = parse({argv + 1, argv + argc});
  if (!arguments) {
    std::cerr << kUsage << arguments.error().text() << "\n";
    return kUsageCode;
  }
  int code = 1;
  const Result<> ended = catching([&]() -> Result<> {
    DT_TRY(code, run(*arguments));
    return {};
  });
  if (ended) return code;
  std::cerr << ended.error().text() << "\n";
  return exit_code(ended.error());
}
