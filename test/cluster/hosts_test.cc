// Jobs over several hosts, launched over ssh or started there by hand. The hosts are network namespaces (hosts.h).
#include "cluster/hosts.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <sstream>

#include "base/file.h"
#include "cluster/lenet_run.h"
#include "cluster/loopback_job.h"
#include "cluster/make_or_skip.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kSlowJobSeconds = 300;

// "dtrain -n W -s S -H FILE ... MORE". The hosts also see the directory that it runs in.
std::vector<std::string> launch(const Hosts& hosts, const std::vector<std::string>& more, int workers = 3,
                                int servers = 2) {
  return command_line(dtrain_program(), "-n", std::to_string(workers), "-s", std::to_string(servers), "-H",
                      hosts.host_file(), endless_training(Heartbeats::kDefault), "--start-timeout 90", more);
}

const std::vector<std::string> kShort = command_line("--num-epochs 1 --num-batches 5 --save-period 1");

Ended run_launcher(const Hosts& hosts, const TempDir& dir, const std::vector<std::string>& command,
                   double seconds = kHostsJobSeconds, const std::vector<std::string>& environment = {}) {
  ProcessOptions options = hosts.options(dir.path());
  options.deadline_s = seconds;
  options.environment.insert(options.environment.end(), environment.begin(), environment.end());
  return run(command, options);
}

// The word after "dtrain: job " in a launcher's output: the job's name.
std::string job_of(const std::string& output) {
  const std::string word = "dtrain: job ";
  const size_t at = output.find(word) + word.size();
  return output.substr(at, output.find('\n', at) - at);
}

std::unique_ptr<Process> start_endless(const Hosts& hosts, const TempDir& dir, const std::string& run_dir) {
  auto launcher = std::make_unique<Process>(launch(hosts, {"--run-dir", run_dir}), hosts.options(dir.path()));
  await_output(*launcher, "Time cost=", kHostsStartSeconds);
  return launcher;
}

std::vector<std::string> lines_with(const std::string& text, const std::string& beginning) {
  std::istringstream lines(text);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(beginning)) found.push_back(line);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

// The groups file names the hosts by their addresses.
TEST_CASE("servers and workers train on the hosts of the file, in the groups of their addresses", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  // Workers 0, 1, 2 are on hosts 2, 0, 1, because the servers were placed first, on hosts 0 and 1.
  must(write_file_atomic(dir.path("groups"),
                         hosts->address(0) + " " + hosts->address(1) + "\n" + hosts->address(2) + "\n"));
  must(write_file_atomic(dir.path("data_sharding"), "0 0.5\n0.5 0.75\n0.75 1\n"));
  const auto command = launch(*hosts, command_line(kShort, "--kv-store dist_gsync --data-allocator 1 --run-dir run"));
  const Ended end = run_launcher(*hosts, dir, command);
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, "[worker 0 " + hosts->address(2) + "] "));
  CHECK(contains(end.output, "join role=worker rank=0 host=node3 addr=" + hosts->address(2)));
  CHECK(contains(end.output, "join role=server rank=1 host=node2 addr=" + hosts->address(1)));
  const job::JobSpec spec = must(job::read_job_spec(dir.path("run")));
  CHECK(spec.groups == std::vector<int64_t>{1, 0, 0});
  CHECK(spec.shares[1].end - spec.shares[1].begin == spec.records_train / 4);
  for (const char* file : {"scheduler-0.log", "server-0.log", "server-1.log", "worker-0.log", "worker-1.log",
                           "worker-2.log", "lenet-0001.params", "summary.json"}) {
    INFO(file);
    CHECK(std::filesystem::exists(dir.path("run/") + file));
  }
  // All hosts share this file; each line is written once.
  CHECK(lines_with(read_file(dir.path("run/worker-0.log")).value(), "").size() ==
        lines_with(end.output, "[worker 0 ").size());
  CHECK(hosts->all_quiet(kHostsQuietSeconds));
}

// Uses few images: the test is only about the way from the documented script to a trained network.
TEST_CASE("a documented script trains on the hosts of its files", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const Ended made =
      run({dtrain_program(), "data", "synth", "--out", dir.path("data/cifar10"), "--count", "120", "--size", "32"},
          {.deadline_s = kHostsJobSeconds, .directory = {}, .environment = {}});
  INFO(made.output);
  REQUIRE(made.code == 0);
  must(write_file_atomic(dir.path("hosts"), must(read_file(hosts->host_file()))));
  must(write_file_atomic(dir.path("groups"),
                         hosts->address(0) + " " + hosts->address(1) + "\n" + hosts->address(2) + "\n"));
  must(write_file_atomic(dir.path("data_sharding"), "0 0.2\n0.2 0.6\n0.6 1\n"));
  const char* scripts = std::getenv("DTRAIN_SCRIPTS");
  REQUIRE(scripts != nullptr);
  const Ended end =
      run_launcher(*hosts, dir,
                   {std::string(scripts) + "/gsp_cifar10_inception_small.sh", "-n", "3", "-s", "2", "-i",
                    hosts->interface() + ",eth0", "--batch-size", "8", "--threads", "1", "--run-dir", "run"},
                   kSlowJobSeconds, {"DTRAIN=" + dtrain_program()});
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, "join role=worker rank=0 host=node3 addr=" + hosts->address(2)));
  const job::JobSpec spec = must(job::read_job_spec(dir.path("run")));
  CHECK(spec.groups == std::vector<int64_t>{1, 0, 0});
  CHECK(spec.records_train == 120);
  CHECK(spec.shares[0].end == 24);
  CHECK(contains(must(read_file(dir.path("run/worker-0.log"))), "Validation-accuracy="));
}

// A dry run prints the hosts, how they are reached and every command line.
TEST_CASE("a dry run prints exactly what is executed, and no secret", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(2);
  if (hosts == nullptr) return;
  const TempDir dir;
  const auto command =
      launch(*hosts, command_line(kShort, "--port 9123 --run-dir run --env", std::string("HUSH=secret word")), 2, 1);
  const std::vector<std::string> environment = {"DTRAIN_TOKEN=0123456789abcdef", "AWS_SECRET_ACCESS_KEY=s3cr3t"};
  const Ended dry = run_launcher(*hosts, dir, command_line(command, "--dry-run"), kHostsJobSeconds, environment);
  INFO(dry.output);
  REQUIRE(dry.code == 0);
  for (const char* secret : {"secret word", "0123456789abcdef", "s3cr3t"}) CHECK_FALSE(contains(dry.output, secret));
  CHECK(contains(dry.output, " HUSH "));
  CHECK_FALSE(std::filesystem::exists(dir.path("run")));

  // A run without end: the command lines of its processes are read while they run.
  const auto endless = command_line(command, "--num-epochs 100000");
  ProcessOptions options = hosts->options(dir.path());
  options.environment.insert(options.environment.end(), environment.begin(), environment.end());
  Process launcher(endless, options);
  await_output(launcher, "Time cost=", kHostsStartSeconds);
  const std::string processes = hosts->processes();
  INFO(processes);
  for (const char* secret : {"secret word", "0123456789abcdef", "s3cr3t"}) CHECK_FALSE(contains(processes, secret));
  const Ended dry_endless =
      run_launcher(*hosts, dir, command_line(endless, "--dry-run"), kHostsJobSeconds, environment);
  for (const char* role : {"0     server ", "0     worker ", "1     worker "}) {
    const std::vector<std::string> lines = lines_with(dry_endless.output, role);
    REQUIRE(lines.size() == 1);
    std::string line = lines[0].substr(lines[0].find(dtrain_program()));
    std::erase(line, '\'');  // the dry run quotes words with blanks, which the clone's path may have
    INFO(line);
    CHECK(contains(processes, " " + line + " \n"));
  }
  CHECK(lines_with(hosts->ssh_calls(), "ssh ") == lines_with(dry.output, "ssh "));
}

TEST_CASE("a launcher that is killed leaves no process on any host", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const auto launcher = start_endless(*hosts, dir, "run");
  CHECK(lines_with(hosts->processes(), "").size() >= 5);
  const int signal = GENERATE(SIGKILL, SIGINT);
  INFO("signal " << signal);
  launcher->signal(signal);
  const bool quiet = hosts->all_quiet(kHostsQuietSeconds);
  INFO(hosts->processes());
  CHECK(quiet);
  const Ended end = launcher->wait(kHostsQuietSeconds);
  CHECK((signal == SIGKILL ? end.signal == SIGKILL : end.code == 75));
}

// Neither side is told that the network is cut. Heartbeats and ssh's keep-alive notice it here, and on the host the
// agent notices that the launcher is silent.
TEST_CASE("a host that is cut off ends the job, and its processes end too", "[hosts-cut][long]") {
  const auto hosts = make_or_skip<Hosts>(2);
  if (hosts == nullptr) return;
  const TempDir dir;
  const auto launcher = start_endless(*hosts, dir, "run");
  hosts->cut_off(1);
  const Ended end = launcher->wait(kHostsJobSeconds);
  INFO(end.output);
  CHECK(end.code == 5);
  const bool quiet = hosts->all_quiet(kHostsJobSeconds);
  INFO(hosts->processes());
  CHECK(quiet);
}

namespace {

// Runs a job on two hosts with a spare one. While it trains, the host of worker 0 is cut off: it still runs, but
// reaches only the shared disk. The job must continue on the spare host.
Ended run_with_cut_host(Hosts& hosts, const TempDir& dir, const std::vector<std::string>& flags) {
  must(write_file_atomic(dir.path("hosts"),
                         hosts.address(0) + "\n" + hosts.address(1) + "\n" + hosts.address(2) + " spare=1\n"));
  Process launcher(launch(hosts,
                          command_line("--run-dir run --num-epochs 30 --save-period 1 --inject step-ms=10", flags, "-H",
                                       dir.path("hosts")),
                          2, 1),
                   hosts.options(dir.path()));
  await_output(launcher, "Saved checkpoint", kHostsStartSeconds);
  const bool begins_there = contains(launcher.output(), "join role=worker rank=0 host=node2");
  hosts.cut_off(1);
  Ended end = launcher.wait(kHostsJobSeconds);
  INFO(end.output);
  CHECK(begins_there);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "dtrain: the spare host " + hosts.address(2) + " takes the place of " + hosts.address(1)));
  CHECK(std::filesystem::exists(dir.path("run/lenet-0030.params")));
  const bool quiet = hosts.all_quiet(kHostsJobSeconds);
  INFO(hosts.processes());
  CHECK(quiet);
  return end;
}

}  // namespace

// Worker 0 on the host that is cut off may no longer write to the shared disk.
TEST_CASE("a job whose host is cut off continues with the spare host", "[hosts-cut][long]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const Ended end = run_with_cut_host(*hosts, dir, command_line("--max-restarts 2"));
  INFO(end.output);
  CHECK(contains(end.output, "join role=worker rank=0 host=node3"));
  CHECK(contains(end.output, "dtrain: the job was restarted once"));
  CHECK(must(read_file(dir.path("run/lenet.lock"))).starts_with("attempt 2: "));
}

// The scheduler notices the loss before the launcher does, which then starts a worker on the host that is cut off.
TEST_CASE("a worker whose host is cut off is replaced on the spare host, and the others do not start again",
          "[hosts-cut]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const Ended end = run_with_cut_host(*hosts, dir, command_line("--on-worker-loss wait --max-restarts 3"));
  INFO(end.output);
  CHECK(contains(end.output, "worker 0 on node3 has joined the job"));
  CHECK_FALSE(contains(end.output, "the job was restarted"));
}

// The scheduler hears both. The cut swallows packets, so only the worker's pings notice it.
TEST_CASE("a cut between one worker and one server ends the job and names both", "[hosts-cut]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const auto launcher = start_endless(*hosts, dir, "run");
  hosts->cut_between(1, 2);  // server 1 and worker 0
  const Ended end = launcher->wait(kHostsJobSeconds);
  INFO(end.output);
  CHECK(end.code == 5);
  CHECK_THAT(end.output, Catch::Contains("worker 0 was lost: it has lost its connection to server 1 and could not") &&
                             Catch::Contains(" to " + hosts->address(1) + ":"));
  const bool quiet = hosts->all_quiet(kHostsJobSeconds);
  INFO(hosts->processes());
  CHECK(quiet);
}

// The cut swallows packets, so only the system's probes on the sockets of the group notice it.
TEST_CASE("of two workers of a group that cannot reach each other one leaves, and the others continue", "[hosts-cut]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  Process launcher(launch(*hosts,
                          command_line("--run-dir run --kv-store allreduce --on-worker-loss shrink "
                                       "--heartbeat-interval 1s --heartbeat-timeout 3s"),
                          3, 0),
                   hosts->options(dir.path()));
  await_output(launcher, "Time cost=", kHostsStartSeconds);
  hosts->cut_between(1, 2);
  const bool is_noticed =
      launcher.wait_for_output("worker 2 was lost: it and worker 1 could not connect to each other", kHostsJobSeconds);
  const bool continues = launcher.wait_for_output("workers 0, 1 continue with step ", kHostsJobSeconds);
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kHostsJobSeconds);
  INFO(end.output);
  CHECK(is_noticed);
  CHECK(continues);
  CHECK(end.code == 75);
  CHECK(hosts->all_quiet(kHostsJobSeconds));
}

TEST_CASE("missing hosts and interfaces end the start with code 3 and list those that exist", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(2);
  if (hosts == nullptr) return;
  const TempDir dir;
  SECTION("no such host") {
    const std::string nobody = hosts->address(0) + "9";  // 10.99.N.19
    must(write_file_atomic(dir.path("hosts"), hosts->address(0) + "\n" + nobody + "\n"));
    auto command = launch(*hosts, command_line(kShort, "-H", dir.path("hosts"), "--run-dir", "run"), 1, 1);
    const Ended end = run_launcher(*hosts, dir, command);
    INFO(end.output);
    CHECK(end.code == 3);
    CHECK(contains(end.output, "error [start-up] " + nobody + " cannot be reached by ssh: ssh: connect to host"));
    CHECK(hosts->all_quiet(kHostsQuietSeconds));
  }
  SECTION("no such interface here") {
    const Ended end = run_launcher(*hosts, dir, launch(*hosts, command_line(kShort, "-i eth9 --run-dir run"), 1, 1));
    INFO(end.output);
    CHECK(end.code == 3);
    CHECK(contains(end.output, "no interface 'eth9' has an address on "));
    CHECK(contains(end.output, hosts->gateway()));
  }
  SECTION("an interface that only this host has") {
    const std::string bridge = hosts->interface();
    const Ended end =
        run_launcher(*hosts, dir, launch(*hosts, command_line(kShort, "-i", bridge, "--run-dir", "run"), 1, 1));
    INFO(end.output);
    CHECK(end.code == 3);
    CHECK(contains(end.output, "no interface '" + bridge + "' has an address on node"));  // node1 or node2
    CHECK(contains(end.output, "; interfaces with addresses: lo 127.0.0.1, eth0 10.99."));
  }
  SECTION("each host uses the interface of the list that it has") {
    const std::string bridge = hosts->interface();
    const Ended end = run_launcher(
        *hosts, dir, launch(*hosts, command_line(kShort, "-i", bridge + ",eth0", "--run-dir", "run"), 1, 1));
    INFO(end.output);
    CHECK(end.code == 0);
  }
}

TEST_CASE("dtrain kill ends one job and does not touch another on the same hosts", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(2);
  if (hosts == nullptr) return;
  const TempDir dir;
  const auto first = start_endless(*hosts, dir, "first");
  const auto second = start_endless(*hosts, dir, "second");
  const std::string job = job_of(first->output()), other = job_of(second->output());
  const auto ps = [&] { return run_launcher(*hosts, dir, {dtrain_program(), "ps", "-H", hosts->host_file()}); };
  const Ended before = ps();
  INFO(before.output);
  CHECK(before.code == 0);
  CHECK(lines_with(before.output, job).size() == 6);
  CHECK(lines_with(before.output, other).size() == 6);
  CHECK(contains(before.output, " node2 "));
  const Ended kill = run_launcher(*hosts, dir, {dtrain_program(), "kill", job, "-H", hosts->host_file()});
  INFO(kill.output);
  CHECK(kill.code == 0);
  const Ended after = ps();
  INFO(after.output);
  CHECK(lines_with(after.output, job).empty());
  CHECK(lines_with(after.output, other).size() == 6);
  CHECK(first->wait(kHostsQuietSeconds).code == 75);
  CHECK(second->running());
  const Ended again = run_launcher(*hosts, dir, {dtrain_program(), "kill", job, "-H", hosts->host_file()});
  CHECK(again.code == 2);
  CHECK(contains(again.output, "Running jobs: " + other));
}

// The last launch has a directory that cannot be made.
TEST_CASE("the program and files are copied to the hosts, and the logs come back", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(2);
  if (hosts == nullptr) return;
  const TempDir dir;
  must(make_directories(dir.path("here/sub")));
  must(write_file_atomic(dir.path("here/sub/file"), "needed there"));
  must(write_file_atomic(dir.path("here/big"), "not needed there"));
  auto command = launch(
      *hosts, command_line(kShort, "--sync-dst-dir", std::string("/tmp/a copy"), "--exclude big --run-dir run"), 2, 1);
  ProcessOptions options = hosts->options(dir.path("here"));
  options.deadline_s = kHostsJobSeconds;
  const Ended end = run(command, options);
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(read_file(dir.path("here/run/worker-1.log")).value_or(""), "Epoch[0] Train-accuracy"));
  CHECK(contains(read_file(dir.path("here/run/server-0.log")).value_or(""), "serves 2 workers"));
  const Ended there = run(hosts->on(0, {"ls", "/tmp/a copy", "/tmp/a copy/sub"}), {});
  INFO(there.output);
  CHECK(contains(there.output, "file"));
  CHECK_FALSE(contains(there.output, "big"));

  command[command.size() - 5] = "/proc/nowhere";
  command.push_back("--overwrite");  // the run directory exists from the run before
  const Ended failed = run(command, options);
  INFO(failed.output);
  CHECK(failed.code == 3);
  CHECK(contains(failed.output, "error [start-up] --sync-dst-dir: copying this program to 10.99."));  // to either host
  CHECK(contains(failed.output, " failed: mkdir: cannot create directory '/proc/nowhere'"));
}

TEST_CASE("a host without the executable is named", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(1);
  if (hosts == nullptr) return;
  const TempDir dir;
  // The hosts do not see this host's /tmp.
  const std::string program = std::filesystem::path("/tmp") / std::filesystem::path(dir.path()).filename();
  std::filesystem::copy_file(dtrain_program(), program);
  auto command = launch(*hosts, kShort, 1, 1);
  command[0] = program;
  const Ended end = run_launcher(*hosts, dir, command);
  std::filesystem::remove(program);
  INFO(end.output);
  CHECK(end.code == 3);
  CHECK(contains(end.output, hosts->address(0) + " has no executable '" + program + "'; --sync-dst-dir"));
}

// A tracker starts the same command in every role and names the role in environment variables (DMLC_ROLE and others).
TEST_CASE("processes that a tracker starts on the hosts find each other over their addresses", "[hosts]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const std::vector<std::string> command =
      command_line(dtrain_program(), "--run-dir", dir.path("run"), endless_training(Heartbeats::kDefault), kShort);
  const auto start = [&](const std::string& role, int host) {
    const ProcessOptions options{.directory = dir.path(),
                                 .environment = {"DTRAIN_TOKEN=0123456789abcdef0123456789abcdef", "DMLC_ROLE=" + role,
                                                 "DMLC_INTERFACE=eth0", "DMLC_PS_ROOT_URI=" + hosts->address(0),
                                                 "DMLC_PS_ROOT_PORT=9091", "DMLC_NUM_WORKER=2", "DMLC_NUM_SERVER=1"}};
    return std::make_unique<Process>(hosts->on(host, command), options);
  };
  std::vector<std::unique_ptr<Process>> processes;
  processes.push_back(start("worker", 1));
  processes.push_back(start("server", 2));
  processes.push_back(start("scheduler", 0));
  processes.push_back(start("worker", 2));
  for (const auto& process : processes) {
    const Ended end = process->wait(kHostsJobSeconds);
    INFO(end.output);
    CHECK(end.code == 0);
  }
  INFO(processes[2]->output());
  CHECK(contains(processes[2]->output(), "host=node2 addr=" + hosts->address(1)));
  CHECK(contains(processes[2]->output(), "host=node3 addr=" + hosts->address(2) + ":"));
}

// The link loses 5 % of the frames and adds 10 ms, in each direction.
TEST_CASE("loss and delay on the way to a host change no bit of the weights", "[hosts-slow]") {
  const auto hosts = make_or_skip<Hosts>(2);
  if (hosts == nullptr) return;
  const TempDir dir;
  std::vector<size_t> images(160);
  std::iota(images.begin(), images.end(), 0);
  write_mnist(dir.path("data"), images);
  const auto train = [&](const std::string& run_dir) {
    const Ended end = run_launcher(
        *hosts, dir,
        command_line(dtrain_program(), "-n 2 -s 1 -H", hosts->host_file(), "--network lenet --data-dir",
                     dir.path("data"),
                     "--batch-size 8 --lr 0.05 --num-epochs 1 --seed 5 --threads 1 --deterministic 1 --run-dir",
                     run_dir, "--heartbeat-timeout 30"),
        kSlowJobSeconds);
    INFO(end.output);
    REQUIRE(end.code == 0);
    CHECK(contains(end.output, "Resizing training data to 10 batches per machine"));
    return must(read_ndarray_file(dir.path(run_dir) + "/lenet-0001.params"));
  };
  const std::vector<NamedArray> plain = train("plain");
  std::string why_not;
  const auto link = hosts->slow_link(1, 0.05, 10, why_not);
  if (link == nullptr) {
    WARN("skipped: " << why_not);
    return;
  }
  CHECK(same_bits(train("slow"), plain));
  CHECK(link->lost() > 100);
}

// dtrain sets cubic only for connections within a host; between hosts the kernel's own choice stays.
TEST_CASE("connections between hosts keep the system's congestion control", "[hosts]") {
  const std::string own = read_file("/proc/sys/net/ipv4/tcp_congestion_control").value_or("cubic");
  if (own.starts_with("cubic")) {
    WARN("skipped: the system's own congestion control is cubic");
    return;
  }
  const auto hosts = make_or_skip<Hosts>(2);
  if (hosts == nullptr) return;
  const TempDir dir;
  must(write_file_atomic(dir.path("hosts"),
                         hosts->address(0) + " role=server\n" + hosts->address(1) + " role=worker\n"));
  const auto command = launch(*hosts, {"-H", dir.path("hosts"), "--run-dir", "run"}, 1, 1);
  Process launcher(command, hosts->options(dir.path()));
  await_output(launcher, "Time cost=", kHostsStartSeconds);
  const Ended sockets = run(hosts->on(1, {"ss", "-tinH"}), {});
  INFO(sockets.output);
  CHECK(contains(sockets.output, hosts->address(0)));
  CHECK_FALSE(contains(sockets.output, "cubic"));
}
