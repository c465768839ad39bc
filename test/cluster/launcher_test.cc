// `dtrain -n W -s S` starts a whole job: how it ends, and what it leaves behind.
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kStartSeconds = 60;
constexpr double kStopSeconds = 15;  // in which a job that is told to stop must be gone

// One launcher with its own directory, which also holds the launcher's record of processes.
class LaunchedJob {
 public:
  explicit LaunchedJob(const std::vector<std::string>& flags, int workers = 2, int servers = 2,
                       const std::vector<std::string>& command = {dtrain_program()}) {
    start(command_line(command, "-n", std::to_string(workers), "-s", std::to_string(servers), "--run-dir", run_dir(),
                       flags));
  }
  // Resumes the run as a user would. The launcher must have ended.
  Process& resume() {
    start({dtrain_program(), "--resume", run_dir()});
    return *launcher_;
  }
  Process& launcher() { return *launcher_; }
  [[nodiscard]] std::string run_dir() const { return dir_.path("run"); }

  // The ids of all processes that the launcher has recorded.
  [[nodiscard]] std::vector<pid_t> processes() const {
    std::vector<pid_t> pids;
    for (const auto& job : std::filesystem::directory_iterator(dir_.path("dtrain"))) {
      for (const auto& file : std::filesystem::directory_iterator(job.path())) {
        std::istringstream lines(read_file(file.path().string()).value_or(""));
        for (std::string line; std::getline(lines, line);) {
          std::istringstream words(line);
          std::string role;
          int64_t rank = 0, pid = 0, start = 0;
          if (words >> role >> rank >> pid >> start) pids.push_back(static_cast<pid_t>(pid));
        }
      }
    }
    return pids;
  }
  // The job's name, as `dtrain ps` prints it.
  [[nodiscard]] std::string name() const {
    return std::filesystem::directory_iterator(dir_.path("dtrain"))->path().filename().string();
  }
  [[nodiscard]] bool record_is_gone() const { return std::filesystem::is_empty(dir_.path("dtrain")); }

 private:
  void start(const std::vector<std::string>& command) {
    launcher_ = std::make_unique<Process>(
        command, ProcessOptions{.directory = dir_.path(), .environment = {"XDG_STATE_HOME=" + dir_.path()}});
  }

  TempDir dir_;
  std::unique_ptr<Process> launcher_;
};

// A zombie counts as ended: its new parent just has not waited for it yet.
bool runs(pid_t pid) {
  const Result<std::string> stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  return stat && stat->find(") Z") == std::string::npos;
}

bool all_gone(const std::vector<pid_t>& pids, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (const pid_t pid : pids) {
    while (runs(pid)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      ::poll(nullptr, 0, 10);
    }
  }
  return true;
}

// The last line that starts with "dtrain: " and `beginning`, and all lines after it.
std::vector<std::string> lines_after(const std::string& text, const std::string& beginning) {
  const size_t at = text.rfind("\ndtrain: " + beginning);
  std::istringstream rest(at == std::string::npos ? "" : text.substr(at + 1));
  std::vector<std::string> lines;
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

// The number behind the last `words` in the text, or -1.
int64_t last_number_behind(const std::string& text, const std::string& words) {
  const size_t at = text.rfind(words);
  return at == std::string::npos ? -1 : std::strtoll(text.c_str() + at + words.size(), nullptr, 10);
}

}  // namespace

TEST_CASE("Ctrl-C ends a whole job with a checkpoint and leaves nothing running", "[launcher]") {
  LaunchedJob job(endless_training());
  await_output(job.launcher(), "Time cost=", kStartSeconds);
  const std::vector<pid_t> pids = job.processes();
  REQUIRE(pids.size() == 5);
  const std::string name = job.name();
  const int signal = GENERATE(SIGINT, SIGTERM);
  INFO("signal " << signal);
  job.launcher().signal(signal);
  const Ended end = job.launcher().wait(kStopSeconds);
  INFO("now:\n" << end.output);
  CHECK_FALSE(end.timed_out);
  CHECK(end.code == 75);
  const std::string since = end.output.substr(end.output.rfind("stopping the job"));
  CHECK_FALSE(contains(since, "error"));
  CHECK_FALSE(contains(since, "ended with code"));
  CHECK(contains(end.output, "--resume"));
  CHECK(last_number_behind(end.output, "  step ") ==
        last_number_behind(end.output, "stopped after "));  // the live line
  CHECK_FALSE(contains(end.output.substr(end.output.rfind("  step ")), "ETA"));
  CHECK(all_gone(pids, 0));
  CHECK(job.record_is_gone());
  CHECK(checkpoint_count(job.run_dir()) > 0);
  CHECK(contains(read_file(job.run_dir() + "/summary.json").value_or(""), "\"job\": \"" + name + "\""));
  CHECK(broken_files(job.run_dir()).empty());
  CHECK(contains(read_file(job.run_dir() + "/metrics.jsonl").value_or(""), R"("role":"server","rank":0,"epoch":null)"));
}

TEST_CASE("all processes of a job end if its launcher is killed", "[launcher]") {
  LaunchedJob job(endless_training());
  await_output(job.launcher(), "Time cost=", kStartSeconds);
  const std::vector<pid_t> pids = job.processes();
  REQUIRE(pids.size() == 5);
  job.launcher().signal(SIGKILL);
  CHECK(job.launcher().wait(kStopSeconds).signal == SIGKILL);
  CHECK(all_gone(pids, kStopSeconds));
}

// The killed process cannot log its own death, so the survivors' messages must tell the user what happened.
TEST_CASE("after kill -9 of a process every survivor names it, the checkpoints load and the job resumes", "[kills]") {
  struct Victim {
    std::string name;
    size_t position;  // in the record, which lists the scheduler, then servers, then workers
    int code;         // the job's exit code
  };
  const Victim victim = GENERATE(Victim{"worker 1", 4, 5}, Victim{"server 0", 1, 5}, Victim{"scheduler", 0, 4});
  INFO("killed: " << victim.name);
  LaunchedJob job(endless_training());
  await_output(job.launcher(), "Saved checkpoint", kStartSeconds);
  const std::vector<pid_t> pids = job.processes();
  REQUIRE(pids.size() == 5);
  ::kill(pids[victim.position], SIGKILL);
  const Ended end = job.launcher().wait(2 * kStopSeconds);
  INFO("now:\n" << end.output);
  CHECK(end.code == victim.code);
  CHECK(all_gone(pids, 0));

  const std::vector<std::string> last = lines_after(end.output, victim.name + " on ");
  REQUIRE(last.size() == 5);  // the victim and four survivors
  CHECK(contains(last[0], "was killed by signal 9 (Killed)"));
  for (size_t i = 1; i < last.size(); i++) {
    INFO(last[i]);
    CHECK(last[i].starts_with("  "));
    CHECK(contains(last[i], ": error ["));
    CHECK(contains(last[i].substr(last[i].find(": error [")), victim.name));
  }
  CHECK_FALSE(contains(end.output, "its first error"));

  CHECK(checkpoint_count(job.run_dir()) > 0);
  CHECK(broken_files(job.run_dir()).empty());
  await_output(job.resume(), "Time cost=", kStartSeconds);
  job.launcher().signal(SIGTERM);
  CHECK(job.launcher().wait(kStopSeconds).code == 75);
}

TEST_CASE("every role leaves its log and the job its summary in the run directory", "[launcher]") {
  LaunchedJob job(command_line(endless_training(), "--num-epochs 1 --num-batches 5"), 2, 1);
  const Ended end = job.launcher().wait(kStartSeconds);
  INFO(end.output);
  REQUIRE(end.code == 0);
  for (const char* file : {"scheduler-0.log", "server-0.log", "worker-0.log", "worker-1.log", "jobspec", "summary.json",
                           "metrics.jsonl"}) {
    INFO(file);
    CHECK(std::filesystem::exists(job.run_dir() + "/" + file));
  }
}

TEST_CASE("a launched job that cannot start ends at once and prints the cause last", "[launcher]") {
  SECTION("the port is in use") {
    const LoopbackJob other({.workers = 1, .servers = 1, .start_all = false});
    LaunchedJob job(command_line(endless_training(), "--port", std::to_string(port_of(other.address()))));
    const Ended end = job.launcher().wait(kStopSeconds);
    INFO(end.output);
    CHECK(end.code == 3);
    CHECK(contains(end.output, std::to_string(port_of(other.address()))));
    CHECK_FALSE(contains(end.output, "logs are in"));
    CHECK_FALSE(std::filesystem::exists(job.run_dir()));
  }
  SECTION("the data is missing") {
    LaunchedJob job({"--network", "lenet", "--data-dir", "/no/such/directory", "--num-epochs", "1"});
    const Ended end = job.launcher().wait(kStopSeconds);
    INFO(end.output);
    CHECK(end.code == 7);
    CHECK(contains(end.output.substr(end.output.size() > 400 ? end.output.size() - 400 : 0), "/no/such/directory"));
  }
}

// If a stream is closed, the next file that is opened gets its number.
TEST_CASE("a job whose standard streams are closed trains to the end", "[launcher]") {
  std::vector<std::string> flags = endless_training();
  for (const char* word : {"--num-epochs", "1", "--num-batches", "5"}) flags.emplace_back(word);
  LaunchedJob job(flags, 1, 1, {"sh", "-c", "exec \"$0\" \"$@\" <&- >&- 2>&-", dtrain_program()});
  const auto stream = [&](int fd) {
    std::error_code error;
    return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", job.launcher().pid(), fd), error).string();
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kStartSeconds);
  while (!std::filesystem::exists(job.run_dir()) && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 10);
  for (const int fd : {0, 1, 2}) CHECK(stream(fd) == "/dev/null");
  CHECK(job.launcher().wait(kStartSeconds).code == 0);
  CHECK(contains(read_file(job.run_dir() + "/worker-0.log").value_or(""), "Finished after 1 epoch"));
}

namespace {

// What is on a terminal of 80 columns when the command, in shell syntax, has ended: without what was overwritten.
std::string on_terminal(const TempDir& dir, const std::string& command) {
  const Ended ended =
      run({"script", "--quiet", "--return", "--command", "stty cols 80 rows 24; " + command, "/dev/null"},
          {.deadline_s = kStartSeconds,
           .directory = dir.path(),
           .environment = {"XDG_STATE_HOME=" + dir.path(), "TERM=xterm"}});
  INFO(ended.output);
  CHECK(ended.code == 0);
  const std::string& bytes = ended.output;
  std::string kept;
  for (size_t i = 0; i < bytes.size(); i++) {
    if (bytes.compare(i, 3, "\r\x1b[") == 0) {  // the block is erased, from its first row on
      const bool is_higher = bytes[i + 4] == 'A';
      const int rows = is_higher ? bytes[i + 3] - '0' : 0;
      for (int row = 0; row <= rows; row++)
        kept.erase(row == 0 ? kept.rfind('\n') + 1 : kept.rfind('\n', kept.size() - 2) + 1);
      i += is_higher ? 7 : 3;
    } else if (bytes[i] != '\r') {
      kept += bytes[i];
    }
  }
  return kept;
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

}  // namespace

TEST_CASE("a terminal shows a line for each epoch, and MXNet's lines are in the log file", "[launcher]") {
  const TempDir dir;
  make_images(dir.path("data"));
  const std::string train = dtrain_program() +
                            " --network mlp --data-dir data --scale 0.004 --num-epochs 2 --batch-size 50 "
                            "--run-dir run --overwrite ";
  for (const std::string processes : {"", "-n 2 -s 1 "}) {
    INFO(processes);
    const std::string screen = on_terminal(dir, train + processes);
    INFO(screen);
    CHECK_THAT(screen, Catch::Contains("\ntraining: ") || Catch::StartsWith("training: "));
    CHECK_THAT(screen, Catch::Contains("\nepoch 1/2  loss ") && Catch::Contains("\nepoch 2/2  loss ") &&
                           Catch::Contains(" %  validation ") && Catch::Contains("\nFinished after 2 epochs"));
    CHECK_THAT(screen, !Catch::Contains("Epoch[") && !Catch::Contains("Node[") && !Catch::Contains("start with arg"));
    CHECK(widest_line(screen) <= 80);
    const std::string log = read_file(dir.path("run/worker-0.log")).value_or("");
    CHECK_THAT(log,
               Catch::Contains("Node[0] Epoch[1] Validation-accuracy=") && Catch::Contains("Node[0] epoch 2/2  loss "));
  }
  const std::string screen = on_terminal(dir, train + "--log-format 1.9");
  CHECK_THAT(screen, Catch::Contains("Node[0] Epoch[1] Validation-accuracy="));
}
