#include "launch/make_job.h"
#include "proc/this_host.h"

#include <algorithm>

#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::launch;

namespace {

job::Flags two_by_one() {
  job::Flags flags;
  flags.job.num_workers = 2;
  flags.job.num_servers = 1;
  return flags;
}

Job job_with(const job::Flags& flags, const std::string& token = "secret",
             std::optional<job::HostAssignment> hosts = std::nullopt) {
  return make_job({.executable = "/opt/dtrain",
                   .arguments = {"-n", "2", "-s", "1", "--network", "lenet"},
                   .flags = flags,
                   .host = "node",
                   .hosts = std::move(hosts),
                   .run_dir = "runs/x",
                   .token = token,
                   .record_root = ""});
}

bool has(const std::vector<std::string>& list, const std::string& what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

}  // namespace

TEST_CASE("a local process gets the user's command line followed by its role", "[launch]") {
  const job::Flags flags = two_by_one();
  const Job job = job_with(flags);
  CHECK(proc::shell_line(job.scheduler.arguments) ==
        "/opt/dtrain -n 2 -s 1 --network lenet --role scheduler --rank 0 --run-dir runs/x --advertise 127.0.0.1");
  const std::vector<Command> others = job.others("127.0.0.1:4711");
  REQUIRE(others.size() == 3);
  CHECK(others[0].name() == "server 0");
  CHECK(others[1].name() == "worker 0");
  CHECK(proc::shell_line(others[2].arguments) ==
        "/opt/dtrain -n 2 -s 1 --network lenet --role worker --rank 1 --run-dir runs/x --advertise 127.0.0.1 "
        "--scheduler 127.0.0.1:4711");
}

TEST_CASE("a scheduler is started again at its old port if it keeps its decisions", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.state_dir = "state";
  CHECK(job_with(flags).returning_scheduler == nullptr);
  flags.launch.max_restarts = 3;
  const Job job = make_job({.executable = "/opt/dtrain",
                            .arguments = {"-n", "2", "-s", "1", "--port-range", "4000-4100", "--state-dir", "state"},
                            .flags = flags,
                            .host = "node",
                            .hosts = {},
                            .run_dir = "runs/x",
                            .token = "secret",
                            .record_root = ""});
  CHECK(job.replacements_max == 3);
  const Command again = job.returning_scheduler("127.0.0.1:4711", 2);
  CHECK(
      proc::shell_line(again.arguments) ==
      "/opt/dtrain -n 2 -s 1 --state-dir state --role scheduler --rank 0 --run-dir runs/x --advertise 127.0.0.1 --port "
      "4711");
  CHECK(has(again.environment, "DTRAIN_RETURNS=2"));
  CHECK_FALSE(has(job.scheduler.environment, "DTRAIN_RETURNS=2"));
  flags.launch.state_dir.clear();
  CHECK(job_with(flags).returning_scheduler == nullptr);
}

TEST_CASE("a part of a job has the processes of one rank, which join the others at --scheduler", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.scheduler = "10.0.0.1:4000";
  const auto part = [&](int rank, const std::string& token) {
    return make_job({.executable = "/opt/dtrain",
                     .arguments = {"-n", "2", "-s", "1", "--scheduler", "10.0.0.1:4000"},
                     .flags = flags,
                     .host = "node",
                     .hosts = {},
                     .run_dir = "runs/x",
                     .token = token,
                     .record_root = "",
                     .only_rank = rank});
  };
  const Job first = part(0, "secret");
  CHECK_FALSE(first.joins_scheduler);
  CHECK(proc::shell_line(first.scheduler.arguments) ==
        "/opt/dtrain -n 2 -s 1 --scheduler 10.0.0.1:4000 --role scheduler --rank 0 --run-dir runs/x");
  REQUIRE(first.others("10.0.0.1:4000").size() == 2);
  CHECK(has(first.others("10.0.0.1:4000")[1].environment, "DTRAIN_HOST_ROLES=2"));
  const Job second = part(1, "");
  CHECK(second.joins_scheduler);
  CHECK(second.scheduler_address == "10.0.0.1:4000");
  const std::vector<Command> others = second.others(second.scheduler_address);
  REQUIRE(others.size() == 1);  // the job has one server, of rank 0
  CHECK(others[0].name() == "worker 1");
  CHECK(has(others[0].environment, "DTRAIN_HOST_ROLES=1"));
  CHECK(has(others[0].environment, "DTRAIN_TOKEN="));  // a token that only this part knew would keep the others out
  CHECK(dry_run_text(second).find(" scheduler ") == std::string::npos);
}

TEST_CASE("processes have the hosts and GPUs of the host file", "[launch]") {
  job::Flags flags = two_by_one();
  const job::HostAssignment hosts{.servers = {{"c"}}, .workers = {{"a", {{0, 1}}}, {"b"}}};
  const std::vector<Command> local = job_with(flags, "secret", hosts).others("127.0.0.1:4711");
  CHECK(local[0].host == "c");
  CHECK(local[1].host == "a");
  CHECK(local[2].host == "b");
  CHECK_THAT(proc::shell_line(local[1].arguments), Catch::Contains("--gpus 0,1 --advertise 127.0.0.1"));
  CHECK(proc::shell_line(local[2].arguments).find("--gpus") == std::string::npos);
  for (const Command& command : local) CHECK(command.host_number == 0);
}

TEST_CASE("the workers of one host share all of its GPUs", "[launch][gpus]") {
  job::Flags flags = two_by_one();
  const auto gpus_of = [&](const Job& job) {
    std::string text;
    for (const Command& command : job.others("127.0.0.1:4711")) {
      const auto gpus = std::find(command.arguments.begin(), command.arguments.end(), "--gpus");
      const bool is_given = gpus != command.arguments.end();
      text += fmt::format("{}={} ", command.name(), is_given ? *std::next(gpus) : "");
    }
    return text;
  };
  flags.device.gpus = job::GpuList::all();
  CHECK(gpus_of(job_with(flags)) == "server 0= worker 0=all:1/2 worker 1=all:2/2 ");
  // With --launcher local, a host file does not place the processes, so its hosts' GPUs are this host's.
  const job::HostAssignment hosts{.servers = {{"c"}}, .workers = {{"a", job::GpuList::all()}, {"b", {{3}}}}};
  flags.device.gpus = {};
  CHECK(gpus_of(job_with(flags, "secret", hosts)) == "server 0= worker 0=all:1/2 worker 1=3 ");
  // Numbers and parts are the GPUs of every worker.
  flags.device.gpus = {.numbers = {0, 1}};
  CHECK(gpus_of(job_with(flags)) == "server 0= worker 0= worker 1= ");
  flags.device.gpus = {.numbers = {}, .part = 1, .parts = 2};
  CHECK(gpus_of(job_with(flags)) == "server 0= worker 0= worker 1= ");
  // The nodes of a benchmark have one worker each.
  flags.device.gpus = job::GpuList::all();
  flags.launch.scheduler = "10.0.0.1:4000";
  const Job part = make_job({.executable = "/opt/dtrain",
                             .arguments = {},
                             .flags = flags,
                             .host = "node",
                             .hosts = {},
                             .run_dir = "runs/x",
                             .token = "secret",
                             .record_root = "",
                             .only_rank = 0});
  CHECK(gpus_of(part) == "server 0= worker 0= ");
}

namespace {

// 1 server and 2 workers on two hosts; host "a" has two of the processes.
Job ssh_job(job::Flags flags, std::vector<std::string> arguments = {}) {
  flags.launch.launcher = "ssh";
  const job::SshAddress a{"a", 2222, "me"}, b{"b"};
  const job::HostAssignment hosts{.servers = {{"a", {}, a}},
                                  .workers = {{"b", {}, b}, {"a", {{0}}, a}},
                                  .spares = {{"c", {}, {"c"}}, {"d", {{4, 5}}, {"d", 22}}}};
  arguments.insert(arguments.begin(), {"-n", "2", "-s", "1"});
  return make_job({.executable = "/work/build/dtrain",
                   .arguments = std::move(arguments),
                   .flags = flags,
                   .host = "node",
                   .hosts = hosts,
                   .run_dir = "runs/x",
                   .token = "secret",
                   .record_root = "",
                   .variables = {.scheduler = {"A=1"},
                                 .server = {"A=1"},
                                 .worker = {"A=1", "OMP_NUM_THREADS=3"},
                                 .forwarded = {"OMP_NUM_THREADS=2", "LD_LIBRARY_PATH=/opt/my lib"}},
                   .address = "10.0.0.9",
                   .directory = "/work"});
}

}  // namespace

TEST_CASE("an ssh job runs servers and workers on their hosts and the scheduler on this one", "[launch]") {
  const Job job = ssh_job(two_by_one());
  CHECK(proc::shell_line(job.scheduler.arguments) ==
        "/work/build/dtrain -n 2 -s 1 --role scheduler --rank 0 --run-dir runs/x --advertise 10.0.0.9");
  CHECK(job.scheduler.host_number == 0);
  CHECK_FALSE(has(job.scheduler.environment, "OMP_NUM_THREADS=2"));
  const std::vector<Command> others = job.others("10.0.0.9:4711");
  CHECK(others[0].host_number == 1);
  CHECK(others[1].host_number == 2);
  CHECK(others[2].host_number == 1);
  CHECK(others[2].host == "a");
  CHECK(proc::shell_line(others[2].arguments) ==
        "/work/build/dtrain -n 2 -s 1 --role worker --rank 1 --run-dir runs/x --gpus 0 --scheduler 10.0.0.9:4711");
  for (const char* entry : {"DTRAIN_TOKEN=secret", "DMLC_JOB_CLUSTER=ssh", "DTRAIN_HOST_ROLES=2", "A=1"}) {
    INFO(entry);
    CHECK(has(others[2].environment, entry));
  }
  CHECK(has(others[1].environment, "DTRAIN_HOST_ROLES=1"));
  const auto& variables = others[2].environment;  // the user's variables win because they come later
  CHECK(std::find(variables.begin(), variables.end(), "OMP_NUM_THREADS=2") <
        std::find(variables.begin(), variables.end(), "OMP_NUM_THREADS=3"));
  REQUIRE(job.other_hosts.size() == 2);
  CHECK(job.other_hosts[0].name == "a:2222");
  CHECK(job.other_hosts[0].directory == "/work");
  CHECK(job.other_hosts[0].executable == "/work/build/dtrain");
  CHECK_FALSE(job.other_hosts[0].copy);
  CHECK(proc::shell_line(job.other_hosts[0].ssh) ==
        "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o "
        "ControlMaster=no -o ControlPath=none -p 2222 -l me -- a 'exec sh -s'");
  CHECK(starter_script(job.other_hosts[0]) ==
        "LD_LIBRARY_PATH='/opt/my lib'; export LD_LIBRARY_PATH\n"
        "cd /work || exit 125; [ -x /work/build/dtrain ] || exit 127; exec /work/build/dtrain launch-agent\n");
}

TEST_CASE("other hosts do not receive addresses, ports and the launcher's own flags", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.advertise = "10.0.0.9";
  flags.launch.port = 9091;
  const Job job = ssh_job(flags, {"--advertise", "10.0.0.9", "--port", "9091", "--env", "KEY=hush", "--env-worker=B=2",
                                  "--token-file", "token", "--dry-run", "--lr", "0.1"});
  CHECK(proc::shell_line(job.scheduler.arguments) ==
        "/work/build/dtrain -n 2 -s 1 --port 9091 --lr 0.1 --role scheduler --rank 0 --run-dir runs/x --advertise "
        "10.0.0.9");
  CHECK(job.scheduler_address == "10.0.0.9:9091");
  CHECK(proc::shell_line(job.others(job.scheduler_address)[1].arguments) ==
        "/work/build/dtrain -n 2 -s 1 --port 9091 --lr 0.1 --role worker --rank 0 --run-dir runs/x --scheduler "
        "10.0.0.9:9091 --port 0");
}

TEST_CASE("with --sync-dst-dir hosts run the copied program", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.sync_dst_dir = "/tmp/copy";
  flags.launch.exclude = {"runs", "*.o"};
  const Job job = ssh_job(flags, {"--sync-dst-dir", "/tmp/copy", "--exclude", "runs", "--exclude=*.o"});
  CHECK(job.other_hosts[1].directory == "/tmp/copy");
  CHECK(job.other_hosts[1].executable == "/tmp/copy/.dtrain/current/bin/dtrain");
  CHECK(job.others("h:1")[0].arguments[0] == "/tmp/copy/.dtrain/current/bin/dtrain");
  CHECK(job.scheduler.arguments[0] == "/work/build/dtrain");
  REQUIRE(job.other_hosts[0].copy);
  CHECK(proc::shell_line(job.other_hosts[0].copy->rsync) ==
        "rsync -az --timeout=60 --exclude=/.dtrain --exclude runs --exclude '*.o' -e 'ssh -T -o BatchMode=yes -o "
        "ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o ControlMaster=no -o ControlPath=none "
        "-p 2222 -l me' ./ "
        "a:/tmp/copy/");
  CHECK_THAT(dry_run_text(job), Catch::Contains("(copies this program with its libraries over ssh to a:2222, to "
                                                "/tmp/copy/.dtrain/, unless they are already there)\n"
                                                "rsync -az "));
  CHECK(remote_executable("/usr/bin/dtrain", "") == "/usr/bin/dtrain");
}

// The name is typed after `dtrain kill` and is part of command lines.
TEST_CASE("a job's name is one plain word for any name of its run directory", "[launch]") {
  const job::Flags flags = two_by_one();
  const auto name = [&](const std::string& run_dir) {
    const std::string all = make_job({.executable = "/opt/dtrain",
                                      .arguments = {},
                                      .flags = flags,
                                      .host = "node",
                                      .hosts = std::nullopt,
                                      .run_dir = run_dir,
                                      .token = "secret",
                                      .record_root = ""})
                                .name;
    return all.substr(0, all.rfind('-'));
  };
  CHECK(name("runs/lenet-1/") == "lenet-1");
  CHECK(name("my runs/first try, lr=0.1") == "first-try--lr-0.1");
  CHECK(name("runs/-n 'x'") == "n--x-");
  for (const char* none : {"", ".", "..", "runs/---", "/"}) CHECK(name(none) == "job");
}

TEST_CASE("the worker in the place of a lost one runs on its host, or on a spare one with its GPUs", "[launch]") {
  job::Flags flags = two_by_one();
  CHECK(ssh_job(flags).other_hosts.size() == 2);
  flags.job.scheme.on_worker_loss = job::OnWorkerLoss::kWait;
  CHECK(ssh_job(flags).other_hosts.size() == 2);
  flags.launch.max_restarts = 3;
  const Job job = ssh_job(flags, {"--resume", "runs/x"});
  REQUIRE(job.other_hosts.size() == 4);
  CHECK(job.other_hosts[3].name == "d:22");
  CHECK(job.spare_hosts == std::vector<size_t>{3, 4});
  const auto of = [&](std::optional<size_t> spare) {
    const Command command = job.replacement("10.0.0.9:4711", "worker", 1, spare);
    CHECK(has(command.environment, "DTRAIN_LAUNCHED=1"));
    return fmt::format("{} {} {}", command.host_number, command.host, proc::shell_line(command.arguments));
  };
  const std::string start = "/work/build/dtrain join -n 2 -s 1 --role worker --rank 1 --run-dir runs/x ";
  CHECK(of(std::nullopt) == "1 a " + start + "--gpus 0 --scheduler 10.0.0.9:4711");
  CHECK(of(0) == "3 c " + start + "--gpus 0 --scheduler 10.0.0.9:4711");
  CHECK(of(1) == "4 d " + start + "--gpus 4,5 --scheduler 10.0.0.9:4711");
}

TEST_CASE("the server in the place of a lost one is started as the first one was, on its host or a spare one",
          "[launch]") {
  job::Flags flags = two_by_one();
  flags.job.scheme.snapshot_every = 50;
  CHECK_FALSE(ssh_job(flags).replacement);
  CHECK(ssh_job(flags).may_lose_servers);
  flags.launch.max_restarts = 3;
  const Job job = ssh_job(flags);
  CHECK(job.replacements_max == 3);
  const auto of = [&](std::optional<size_t> spare) {
    const Command command = job.replacement("10.0.0.9:4711", "server", 0, spare);
    CHECK(has(command.environment, "DTRAIN_RETURNS=1"));
    return fmt::format("{} {} {}", command.host_number, command.host, proc::shell_line(command.arguments));
  };
  const std::string start =
      "/work/build/dtrain -n 2 -s 1 --role server --rank 0 --run-dir runs/x --scheduler 10.0.0.9:4711";
  CHECK(of(std::nullopt).ends_with(start));
  CHECK(of(0) == "3 c " + start);
}

// The expected text shows every command line that would be run; the values of variables may be secrets.
TEST_CASE("a dry run of an ssh job shows its commands but no secret", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.port = 9091;
  CHECK(dry_run_text(ssh_job(flags, {"--port", "9091", "--env", "A=1"})) ==
        "rank  role       host  command\n"
        "0     scheduler  node  /work/build/dtrain -n 2 -s 1 --port 9091 --role scheduler --rank 0 --run-dir runs/x "
        "--advertise 10.0.0.9\n"
        "0     server     a     /work/build/dtrain -n 2 -s 1 --port 9091 --role server --rank 0 --run-dir runs/x "
        "--scheduler 10.0.0.9:9091 --port 0\n"
        "0     worker     b     /work/build/dtrain -n 2 -s 1 --port 9091 --role worker --rank 0 --run-dir runs/x "
        "--scheduler 10.0.0.9:9091 --port 0\n"
        "1     worker     a     /work/build/dtrain -n 2 -s 1 --port 9091 --role worker --rank 1 --run-dir runs/x "
        "--gpus 0 --scheduler 10.0.0.9:9091 --port 0\n"
        "\n"
        "commands that run once per host, before the processes start:\n"
        "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o "
        "ControlMaster=no -o ControlPath=none -p 2222 -l me -- a 'exec sh -s'\n"
        "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o "
        "ControlMaster=no -o ControlPath=none -- b 'exec sh -s'\n"
        "\n"
        "environment variables, which are sent through the standard input of ssh:\n"
        "server 0: OMP_NUM_THREADS LD_LIBRARY_PATH DTRAIN_HOST_ROLES A DTRAIN_TOKEN DMLC_NUM_WORKER DMLC_NUM_SERVER "
        "DMLC_JOB_CLUSTER DMLC_ROLE DMLC_RANK DMLC_PS_ROOT_URI DMLC_PS_ROOT_PORT DMLC_TASK_ID DMLC_SERVER_ID\n"
        "worker 0: OMP_NUM_THREADS LD_LIBRARY_PATH DTRAIN_HOST_ROLES A OMP_NUM_THREADS DTRAIN_TOKEN DMLC_NUM_WORKER "
        "DMLC_NUM_SERVER DMLC_JOB_CLUSTER DMLC_ROLE DMLC_RANK DMLC_PS_ROOT_URI DMLC_PS_ROOT_PORT DMLC_TASK_ID "
        "DMLC_WORKER_ID\n"
        "worker 1: OMP_NUM_THREADS LD_LIBRARY_PATH DTRAIN_HOST_ROLES A OMP_NUM_THREADS DTRAIN_TOKEN DMLC_NUM_WORKER "
        "DMLC_NUM_SERVER DMLC_JOB_CLUSTER DMLC_ROLE DMLC_RANK DMLC_PS_ROOT_URI DMLC_PS_ROOT_PORT DMLC_TASK_ID "
        "DMLC_WORKER_ID\n");
}

TEST_CASE("processes get the environment variables that a tracker would set", "[launch]") {
  const job::Flags flags = two_by_one();
  const std::vector<Command> others = job_with(flags).others("[::1]:4711");
  for (const char* entry : {"DMLC_ROLE=worker", "DMLC_NUM_WORKER=2", "DMLC_NUM_SERVER=1", "DMLC_PS_ROOT_URI=[::1]",
                            "DMLC_PS_ROOT_PORT=4711", "DMLC_TASK_ID=1", "DMLC_WORKER_ID=1", "DMLC_JOB_CLUSTER=local"}) {
    INFO(entry);
    CHECK(has(others[2].environment, entry));
  }
  CHECK(has(others[0].environment, "DMLC_SERVER_ID=0"));
  CHECK(has(others[0].environment, "DMLC_TASK_ID=2"));  // tasks count workers first
}

TEST_CASE("the token is in every environment but in no command line or table", "[launch]") {
  const job::Flags flags = two_by_one();
  const Job given = job_with(flags);
  CHECK(has(given.scheduler.environment, "DTRAIN_TOKEN=secret"));
  CHECK(has(given.others("h:1")[1].environment, "DTRAIN_TOKEN=secret"));
  CHECK(dry_run_text(given).find("secret") == std::string::npos);

  const Job drawn = job_with(flags, "");
  const std::string token = drawn.scheduler.environment[0];
  CHECK(token.size() == std::string("DTRAIN_TOKEN=").size() + 32);
  CHECK(drawn.others("h:1")[1].environment[0] == token);
  CHECK(job_with(flags, "").scheduler.environment[0] != token);
}

TEST_CASE("addresses of the user are kept, and --port applies only to the scheduler", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.port = 9091;
  flags.launch.advertise = "10.0.0.1";
  const Job job = job_with(flags);
  CHECK_FALSE(has(job.scheduler.arguments, "127.0.0.1"));
  CHECK_FALSE(has(job.scheduler.arguments, "--port"));
  const std::vector<std::string> worker = job.others("10.0.0.1:9091")[1].arguments;
  REQUIRE(worker.size() > 2);
  CHECK(std::vector<std::string>(worker.end() - 2, worker.end()) == std::vector<std::string>{"--port", "0"});
}

TEST_CASE("the scheduler alone listens at --metrics-addr, and the others on free ports", "[launch]") {
  const auto others_at = [](const std::string& address) {
    job::Flags flags = two_by_one();
    flags.launch.metrics_addr = address;
    const Job job = job_with(flags);
    CHECK_FALSE(has(job.scheduler.arguments, "0.0.0.0:0"));
    CHECK_FALSE(has(job.scheduler.arguments, "127.0.0.1:0"));
    std::string found;
    for (const Command& command : job.others("10.0.0.1:9091")) {
      found += (found.empty() ? "" : " ") + command.arguments.back();
    }
    return found;
  };
  CHECK(others_at("127.0.0.1:9464") == "127.0.0.1:0 127.0.0.1:0 127.0.0.1:0");
  CHECK(others_at("9464") == "127.0.0.1:0 127.0.0.1:0 127.0.0.1:0");
  CHECK(others_at("node1:9464") == "0.0.0.0:0 0.0.0.0:0 0.0.0.0:0");
  CHECK_FALSE(has(job_with(two_by_one()).others("10.0.0.1:9091")[0].arguments, "--metrics-addr"));
}

TEST_CASE("the launcher's time limits exceed the failure detection times of the processes", "[launch]") {
  const job::Flags flags = two_by_one();
  const Limits limits = job_with(flags).limits;
  CHECK(limits.start == std::chrono::seconds(300));
  CHECK(limits.settle > std::chrono::seconds(12));
  CHECK(limits.settle_scheduler > std::chrono::seconds(42));
  CHECK(limits.kill_after == std::chrono::seconds(10));
  CHECK(limits.stop == std::chrono::seconds(120));
  CHECK(limits.adds_measured);
}

TEST_CASE("--stop-timeout limits all that is between TERM and KILL", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.stop_timeout = std::chrono::seconds(900);
  Limits limits = job_with(flags).limits;
  CHECK(limits.stop == std::chrono::seconds(900));
  CHECK_FALSE(limits.adds_measured);
  CHECK(limits.kill_after == std::chrono::seconds(10));  // there is no checkpoint to wait for
  flags.launch.stop_timeout = std::chrono::seconds(3);
  limits = job_with(flags).limits;
  CHECK(limits.stop == std::chrono::seconds(3));
  CHECK(limits.kill_after == std::chrono::seconds(3));
}

TEST_CASE("a dry run shows one line per process with a placeholder for the address", "[launch]") {
  const job::Flags flags = two_by_one();
  const std::string table = dry_run_text(job_with(flags));
  CHECK(std::count(table.begin(), table.end(), '\n') == 5);
  CHECK(table.find("--role worker --rank 1 --run-dir runs/x --advertise 127.0.0.1 --scheduler 127.0.0.1:PORT") !=
        std::string::npos);
}

TEST_CASE("the path of the executable and the host name are known", "[launch]") {
  CHECK(proc::this_executable().value().ends_with("launch_test"));
  CHECK_FALSE(proc::this_host().empty());
  CHECK(proc::this_host().find('.') == std::string::npos);
}
