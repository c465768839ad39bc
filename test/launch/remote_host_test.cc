// Jobs over several hosts, all of which are this host. A script takes the place of ssh: it records how it was called
// and runs its command here. Agents, messages and processes are real.
#include "launch/remote_host.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "job/process/build_id.h"
#include "launch/supervised.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace dtrain::launch::test;

namespace {

constexpr const char* kFakeSsh = R"(#!/bin/sh
cd "${0%/*}"
for word; do printf '%s\n' "$word"; done >> calls
echo end of call >> calls
while [ "$1" != -- ]; do shift; done
host=$2
echo $$ > ssh.$host
[ ! -e $host.refuses ] || { echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255; }
[ ! -e $host.silent ] || exec sleep 1000
echo "welcome to $host"
shift 2
exec sh -c "$*"
)";

std::string agent_program() {
  const char* path = std::getenv("DTRAIN_AGENT");
  if (path == nullptr) throw std::runtime_error("DTRAIN_AGENT does not name the program; run this with meson test");
  return path;
}

void write_script(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
}

OtherHost other_host(const TempDir& dir, const std::string& name) {
  const std::string program = dir.path("ssh");
  if (!std::filesystem::exists(program)) write_script(program, kFakeSsh);
  OtherHost other{.name = name, .ssh = ssh_command({name}, "exec sh -s"), .executable = agent_program()};
  other.ssh[0] = program;
  other.directory = dir.path();
  other.agent = {"AGENT_BUILD=" + std::string(job::build_id()), "AGENT_RECORD_ROOT=" + dir.path("there-" + name)};
  return other;
}

// Runs the servers and workers of `scripts` alternately on nodes "a" and "b".
Job remote_job(const TempDir& dir, const Scripts& scripts, const Limits& limits) {
  Job job = job_of(dir, scripts, limits);
  job.other_hosts = {other_host(dir, "a"), other_host(dir, "b")};
  job.run_dir = dir.path("run");
  job.others = [here = job.others](const std::string& address) {
    std::vector<Command> commands = here(address);
    for (size_t i = 0; i < commands.size(); i++) {
      commands[i].host_number = i % 2 + 1;
      commands[i].host = i % 2 == 0 ? "a" : "b";
      commands[i].environment = {"SECRET=hush " + std::to_string(i)};
    }
    return commands;
  };
  return job;
}

pid_t ssh_of(const TempDir& dir, const std::string& host) {
  return std::stoi(read_file(dir.path("ssh." + host)).value());
}

}  // namespace

TEST_CASE("remote processes share one connection per host and prefix their output with their names",
          "[launch][remote]") {
  const TempDir dir;
  const std::string words = "echo \"hello $SECRET\"; echo on stderr >&2; ";
  Launcher launcher(remote_job(dir,
                               {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=3 steps=9; await done",
                                .workers = {words, words + "mark done"},
                                .servers = {"await done"}},
                               kPatient));
  CHECK(launcher.wait() == 0);
  const std::string& output = launcher.output();
  CHECK(contains(output, "[worker 0 b] hello hush 1\n"));
  CHECK(contains(output, "[worker 1 a] hello hush 2\n"));
  CHECK(contains(output, "[worker 1 a] on stderr\n"));
  CHECK(contains(output, "[a] welcome to a\n"));
  CHECK(contains(output, "END 0 of 4\n"));
  const std::string calls = read_file(dir.path("calls")).value();
  CHECK(std::count(calls.begin(), calls.end(), '\n') == 2 * std::ssize(other_host(dir, "a").ssh));
  CHECK_FALSE(contains(calls, "hush"));
  CHECK(contains(calls, "BatchMode=yes\n"));
  CHECK(all_gone(dir));
  CHECK_FALSE(std::filesystem::exists(dir.path("there-a/job")));
  CHECK(std::filesystem::is_empty(dir.path("run")));  // shared, so the processes write their own logs
}

TEST_CASE("a job can run on a hundred hosts", "[launch][remote]") {
  const TempDir dir;
  constexpr size_t kHosts = 100;
  Job job = job_of(dir, {.workers = std::vector<std::string>(kHosts, "echo up; await done")}, kPatient);
  for (size_t i = 0; i < kHosts; i++) job.other_hosts.push_back(other_host(dir, fmt::format("n{}", i)));
  job.run_dir = dir.path("run");
  job.others = [here = job.others](const std::string& address) {
    std::vector<Command> commands = here(address);
    for (size_t i = 0; i < commands.size(); i++) commands[i].host_number = i + 1;
    return commands;
  };
  Launcher launcher(job);
  launcher.await("] up", kHosts);
  std::ofstream(dir.path("done")).put('\n');
  CHECK(launcher.wait() == 0);
}

TEST_CASE("output of hosts that lack the run directory is written to it by the launcher", "[launch][remote]") {
  const TempDir dir;
  std::filesystem::create_directories(dir.path("there"));
  Job job = remote_job(dir, {.workers = {"echo one; echo two >&2; mark done"}, .servers = {"echo mine"}}, kPatient);
  job.run_dir = "run";
  job.other_hosts[1].directory = dir.path("there");
  Launcher launcher(job, dir.path());
  CHECK(launcher.wait() == 0);
  CHECK(read_file(dir.path("run/worker-0.log")).value() == "one\ntwo\n");
  CHECK_FALSE(std::filesystem::exists(dir.path("run/server-0.log")));
}

TEST_CASE("a log that cannot be written is said once, and the job continues", "[launch][remote]") {
  const TempDir dir;
  std::filesystem::create_directories(dir.path("there"));
  std::filesystem::create_directories(dir.path("run"));
  std::filesystem::create_symlink("/dev/full", dir.path("run/worker-0.log"));
  std::filesystem::create_symlink("/dev/full", dir.path("run/worker-1.log"));
  const std::string script = "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done; ";
  Job job = remote_job(dir, {.workers = {script + "mark one", script + "await one; mark done"}}, kPatient);
  job.run_dir = "run";
  for (OtherHost& other : job.other_hosts) other.directory = dir.path("there");
  Launcher launcher(job, dir.path());
  CHECK(launcher.wait() == 0);
  const std::string& output = launcher.output();
  INFO(output);
  const std::string said = "cannot write 'run/worker-";
  CHECK(contains(output,
                 "No space left on device; the job continues, but logs of processes on other hosts may lack lines"));
  CHECK(output.find(said) == output.rfind(said));
  CHECK(contains(output, "[worker 1 b] line 9"));
}

// kQuick gives 300 ms, and the worker needs more than that for its checkpoint. A second TERM may end the first sleep.
TEST_CASE("remote processes keep the time that they need to stop if their launcher is killed", "[launch][remote]") {
  const TempDir dir;
  Launcher launcher(remote_job(
      dir,
      {.scheduler =
           "echo dtrain scheduler 127.0.0.1:1; await ready; echo live step=0 checkpoint_s=100; " + Scripts::kObedient,
       .workers =
           {"exec 2>/dev/null; trap 'sleep 1; sleep 1; mark saved; exit 75' TERM; mark ready; sleep 1000 & wait"}},
      kQuick));
  launcher.await("step 0");
  const auto deadline = Clock::now() + kPatience;
  const auto record = [&] {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (contains(entry.path().filename(), "processes-") && contains(entry.path(), "there")) {
        all += read_file(entry.path()).value_or("");
      }
    }
    return all;
  };
  const auto has_new_time = [&] {  // a second line, after that with kQuick's time
    const std::string text = record();
    return text.find("stop-time") != text.rfind("stop-time");
  };
  while (!has_new_time() && Clock::now() < deadline) ::poll(nullptr, 0, 10);
  launcher.signal(SIGKILL);
  CHECK(launcher.wait() == 128 + SIGKILL);
  CHECK(all_gone(dir));
  CHECK(std::filesystem::exists(dir.path("saved")));
}

TEST_CASE("an unusable host fails the start with the cause", "[launch][remote]") {
  const TempDir dir;
  Job job = remote_job(dir, {.workers = {Scripts::kObedient, Scripts::kObedient}}, kPatient);
  int code = 3;
  std::string error;
  SECTION("the host refuses the connection") {
    std::ofstream(dir.path("b.refuses")).put('\n');
    error = "b cannot be reached by ssh: ssh: connect to host b port 22: Connection refused";
  }
  SECTION("the host does not answer") {
    std::ofstream(dir.path("b.silent")).put('\n');
    job.limits.greet = 2s;
    error = "b did not answer within 2 s";
  }
  SECTION("the executable is missing") {
    job.other_hosts[1].executable = "/no/such/dtrain";
    error = "b has no executable '/no/such/dtrain'; --sync-dst-dir";
  }
  SECTION("the working directory is missing") {
    job.other_hosts[1].directory = "/no/such/directory";
    error = "b has no directory '/no/such/directory'";
  }
  SECTION("the build differs") {
    job.other_hosts[1].agent[0] = "AGENT_BUILD=0.0.1-old";
    error = "b has build 0.0.1-old of dtrain";
    code = 6;
  }
  SECTION("the job record cannot be written") {
    std::filesystem::create_directory(dir.path("there-b"));
    REQUIRE(::chmod(dir.path("there-b").c_str(), 0777) == 0);
    error = "on b: '" + dir.path("there-b") + "' is not a directory that only this user can use";
  }
  SECTION("a process cannot be executed") {
    job.others = [](const std::string&) {
      return std::vector<Command>{{.role = "worker", .host = "b", .arguments = {"/no/such/program"}, .host_number = 2}};
    };
    error = "on b: cannot execute '/no/such/program'";
  }
  Launcher launcher(job);
  CHECK(launcher.wait() == code);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), error));
  CHECK(launcher.output().rfind("error [") > launcher.output().rfind("dtrain: logs are in"));
  CHECK(none_left(dir));
}

TEST_CASE("other builds are accepted with --allow-mixed-builds", "[launch][remote]") {
  const TempDir dir;
  Job job = remote_job(dir, {.workers = {"mark done"}}, kPatient);
  job.other_hosts[0].agent[0] = "AGENT_BUILD=0.0.1-old";
  job.allow_mixed_builds = true;
  Launcher launcher(job);
  CHECK(launcher.wait() == 0);
}

TEST_CASE("an interrupted remote job leaves no process on any host", "[launch][remote]") {
  const TempDir dir;
  SECTION("all processes stop when asked") {
    Launcher launcher(remote_job(dir, {.workers = {Scripts::kObedient, Scripts::kObedient}}, kPatient));
    launcher.await("] ready", 2);
    launcher.signal(SIGINT);
    CHECK(launcher.wait() == 75);
    CHECK(contains(launcher.output(), "[worker 1 b] stopped"));
  }
  SECTION("a process that does not stop is killed after a time limit") {
    Launcher launcher(remote_job(dir, {.workers = {Scripts::kObedient, Scripts::kStubborn}}, kQuick));
    launcher.await("] ready");
    launcher.await("] stubborn");
    launcher.signal(SIGTERM);
    CHECK(launcher.wait() == 5);
    CHECK(contains(launcher.output(), "killing processes that did not stop: worker 1"));
  }
  SECTION("the hosts have not answered yet") {
    std::ofstream(dir.path("a.silent")).put('\n');
    Launcher launcher(remote_job(dir, {.workers = {"mark started"}}, kPatient));
    launcher.await("dtrain: job job");
    launcher.signal(SIGINT);
    CHECK(launcher.wait() == 75);
    CHECK_FALSE(std::filesystem::exists(dir.path("started")));
  }
  CHECK(none_left(dir));
}

TEST_CASE("SIGUSR2 reaches every process on every host, and the job continues", "[launch][remote]") {
  const TempDir dir;
  const std::string script =
      "trap 'echo waits: none' USR2; echo ready; while [ ! -e done ]; do sleep 0.02; done; exit 0";
  Launcher launcher(remote_job(
      dir, {.scheduler = "echo dtrain scheduler 127.0.0.1:1; " + script, .workers = {script, script}}, kPatient));
  launcher.await("] ready", 3);
  launcher.signal(SIGUSR2);
  launcher.await("waits: none", 3);
  std::ofstream(dir.path("done")).put('\n');
  CHECK(launcher.wait() == 0);
}

TEST_CASE("remote processes end if their launcher is killed", "[launch][remote]") {
  const TempDir dir;
  Launcher launcher(remote_job(dir, {.workers = {Scripts::kObedient, Scripts::kStubborn}}, kQuick));
  launcher.await("] ready");
  launcher.await("] stubborn");
  launcher.signal(SIGKILL);
  CHECK(launcher.wait() == 128 + SIGKILL);
  CHECK(all_gone(dir));
}

TEST_CASE("the processes of a host are lost if its connection breaks", "[launch][remote]") {
  const TempDir dir;
  Launcher launcher(
      remote_job(dir,
                 {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; " + Scripts::kObedient,
                  .workers = {Scripts::kObedient, "echo ready; echo $$ > agents.child; sleep 1000 & wait"}},
                 kQuick));
  launcher.await("] ready", 3);
  launcher.await("step 1");
  // The script has replaced itself by the agent, whose end closes the streams as the end of ssh would.
  ::kill(ssh_of(dir, "b"), SIGKILL);
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "worker 1 was lost with its host"));
  CHECK(contains(launcher.output(), "error [peer lost] the connection to b broke"));
  CHECK(all_gone(dir));
}

TEST_CASE("the place of a worker whose host is lost is taken on the spare hosts, in their order", "[launch][remote]") {
  const TempDir dir;
  const std::string replace = "echo dtrain replace worker 1; ";
  Job job = remote_job(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; read a; " + replace +
                    "await on-c; echo dtrain replaced worker 1; read b; " + replace + "read c; echo heard; exit 5",
       .workers = {"await end; exit 5", "echo ready; sleep 1000 & wait"}},
      kPatient);
  for (const char* spare : {"c", "d"}) job.other_hosts.push_back(other_host(dir, spare));
  job.may_lose_workers = true;
  job.replacements_max = 9;
  job.spare_hosts = {3, 4};
  job.replacement = [&](const std::string&, const std::string&, int rank, std::optional<size_t> spare) {
    Command command = shell(dir, "worker", rank, "mark on-$0; echo ready; sleep 1000 & wait");
    command.host_number = spare ? job.spare_hosts[*spare] : 2;
    command.host = job.other_hosts[command.host_number - 1].name;
    command.arguments.push_back(command.host);
    return command;
  };
  Launcher launcher(job);
  launcher.await("] ready");
  launcher.await("step 1");
  ::kill(ssh_of(dir, "b"), SIGKILL);
  launcher.await("] ready", 2);
  ::kill(ssh_of(dir, "c"), SIGKILL);
  launcher.await("] ready", 3);
  ::kill(ssh_of(dir, "d"), SIGKILL);
  launcher.await("another worker 1 cannot be started: the connection to d is broken");
  std::ofstream(dir.path("end")).put('\n');
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "dtrain: the spare host c takes the place of b\n"));
  CHECK(contains(launcher.output(), "dtrain: another worker 1 is started on c (1 of 9, --max-restarts)\n"));
  CHECK(contains(launcher.output(), "dtrain: the spare host d takes the place of c\n"));
  CHECK(contains(launcher.output(), "dtrain: another worker 1 is started on d (2 of 9, --max-restarts)\n"));
  CHECK(all_gone(dir));
}

namespace {

// The commands of a copy call the scripts DIR/copy-ssh and DIR/copy-rsync, which say for which host they are called.
Job copying_job(const TempDir& dir) {
  Job job = remote_job(dir, {.workers = {"mark done"}}, kPatient);
  for (OtherHost& other : job.other_hosts) {
    other.copy = {.ssh = {dir.path("copy-ssh"), other.name},
                  .rsync = {dir.path("copy-rsync"), other.name},
                  .directory = dir.path("copy of " + other.name),
                  .exclude = {}};
  }
  job.package = [&dir](proc::SignalQueue& signals) {
    package::Contents contents{.name = "dtrain-9-x86_64", .build_id = "9-test", .glibc = "2.34"};
    contents.files = {
        {.name = "bin/dtrain", .source = {}, .content = "#!/bin/sh\necho dtrain 9\n", .executable = true}};
    return package::StagedPackage::create(contents, dir.path(), signals);
  };
  // A host that has rsync on any host.
  write_script(dir.path("copy-ssh"),
               "#!/bin/sh\necho \"ssh $1\" >> \"${0%/*}/copies\"; sh -c \"$2\" && "
               "echo dtrain-copy rsync\n");
  return job;
}

std::string sorted(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(words, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, " "));
}

}  // namespace

TEST_CASE("the program and the current directory are copied to each host before any process starts",
          "[launch][remote]") {
  const TempDir dir;
  Job job = copying_job(dir);
  write_script(dir.path("copy-rsync"), "#!/bin/sh\n[ $2 = --dry-run ] || echo \"rsync $1\" >> \"${0%/*}/copies\"\n");
  SECTION("the program only once") {
    {
      Launcher launcher(job);
      CHECK(launcher.wait() == 0);
      CHECK(contains(launcher.output(), "dtrain: copying this program, "));
    }
    CHECK(sorted(read_file(dir.path("copies")).value()) == "rsync a rsync b ssh a ssh a ssh b ssh b");
    CHECK(read_file(copied_program(dir.path("copy of b"))).value() == "#!/bin/sh\necho dtrain 9\n");
    std::filesystem::remove(dir.path("copies"));
    Launcher again(job);
    CHECK(again.wait() == 0);
    CHECK_FALSE(contains(again.output(), "copying this program"));
    CHECK(sorted(read_file(dir.path("copies")).value()) == "rsync a rsync b ssh a ssh b");
  }
  SECTION("a host that cannot be reached fails the start") {
    write_script(dir.path("copy-ssh"),
                 "#!/bin/sh\n[ $1 = a ] || { echo Connection refused >&2; exit 255; }; sh -c \"$2\"\n");
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(),
                   "error [start-up] --sync-dst-dir: preparing the copy to b failed: Connection refused"));
    CHECK_FALSE(std::filesystem::exists(dir.path("calls")));
  }
  SECTION("a program that does not start on the host fails the start") {
    job.package = [&dir](proc::SignalQueue& signals) {
      package::Contents contents{.name = "dtrain-9-x86_64", .build_id = "9-test", .glibc = "2.34"};
      contents.files = {{.name = "bin/dtrain",
                         .source = {},
                         .content = "#!/bin/sh\necho GLIBC_2.99 not found >&2; exit 1\n",
                         .executable = true}};
      return package::StagedPackage::create(contents, dir.path(), signals);
    };
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(), "--sync-dst-dir: copying this program to "));
    CHECK(contains(launcher.output(), " failed: GLIBC_2.99 not found"));
    // The copy to the other host is killed as soon as one has failed.
    const std::string failed = contains(launcher.output(), "to a failed") ? "a" : "b";
    CHECK(std::filesystem::is_empty(dir.path("copy of " + failed + "/.dtrain")));
  }
  SECTION("a host with another processor fails the start") {
    write_script(dir.path("copy-ssh"), "#!/bin/sh\necho dtrain-copy architecture aarch64\n");
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(), "this program is for x86_64, but the architecture of a is aarch64"));
  }
}

// The copies do not end before the launcher has shown what they print.
TEST_CASE("the launcher shows how many bytes of all hosts' copies are done", "[launch][remote]") {
  const TempDir dir;
  Job job = copying_job(dir);
  write_script(
      dir.path("copy-rsync"),
      "#!/bin/sh\ncd ${0%/*}; if [ $2 = --dry-run ]; then echo Total transferred file size: 4000000 bytes; exit; "
      "fi\nwhile [ ! -e seen ]; do printf '\\r  1000000  25%%  1.00MB/s  0:00:03'; sleep 0.02; done\n");
  Launcher launcher(job);
  launcher.await("copying the current directory  25 %  2.0 of 8.0 MB");
  CHECK(contains(launcher.output(), "0 of 2 hosts"));
  write_script(dir.path("seen"), "");
  CHECK(launcher.wait() == 0);
}

TEST_CASE("the copy that failed first is named", "[launch][remote]") {
  const TempDir dir;
  const Job job = copying_job(dir);
  SECTION("with its own words") {
    write_script(dir.path("copy-rsync"),
                 "#!/bin/sh\n[ $1 = a ] || { (sleep 0.1; echo no space left >&2) & exit 11; }\n");
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(), "copying the current directory to b failed: no space left"));
  }
  // Like rsync, a copy that is ended because another one failed prints nothing and exits with a code of its own.
  SECTION("and not one that was ended because of it") {
    write_script(dir.path("copy-rsync"),
                 "#!/bin/sh\n[ $2 != --dry-run ] || exit 0\ntrap 'exit 20' TERM; cd ${0%/*}; : > $1.runs; while [ ! -e "
                 "a.runs -o ! -e b.runs ]; do "
                 "sleep 0.01; done; [ $1 = a ] || { echo no space left >&2; exit 11; }; sleep 1000 & wait\n");
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(), "copying the current directory to b failed: no space left"));
  }
  SECTION("with the signal that killed it") {
    write_script(dir.path("copy-rsync"), "#!/bin/sh\n[ $1 = a ] || kill -9 $$\n");
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(), "copying the current directory to b failed: it was killed by signal 9"));
  }
}
