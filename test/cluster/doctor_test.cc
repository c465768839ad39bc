// `dtrain doctor` on the hosts of a cluster, which are network namespaces (hosts.h): hosts that are in order, and
// whatever can be broken there for real. (Clocks cannot: all hosts have the clock of this host.)
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "cluster/hosts.h"
#include "cluster/loopback_job.h"
#include "cluster/make_or_skip.h"
#include "job/process/build_id.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr double kSeconds = 60;

Ended doctor(const Hosts& hosts, const TempDir& dir, const std::vector<std::string>& flags) {
  ProcessOptions options = hosts.options(dir.path());
  options.deadline_s = kSeconds;
  return run(command_line(dtrain_program(), "doctor", flags), options);
}

void do_on(const Hosts& hosts, int i, const std::string& script) {
  const Ended end =
      run(hosts.on(i, {"sh", "-c", script}), {.deadline_s = kSeconds, .directory = {}, .environment = {}});
  INFO(script << ": " << end.output);
  REQUIRE(end.code == 0);
}

void do_here(const std::string& script) {
  const Ended end = run({"sh", "-c", script}, {.deadline_s = kSeconds, .directory = {}, .environment = {}});
  INFO(script << ": " << end.output);
  REQUIRE(end.code == 0);
}

// The table has a line that begins with the check and the verdict, and has the text.
bool has_row(const std::string& output, const std::string& check, const std::string& verdict, const std::string& text) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(check + " ") && contains(line, " " + verdict + " ") && contains(line, text)) return true;
  }
  return false;
}

// The executable with another build id, of the same length.
void write_other_build(const std::string& path) {
  std::string program = must(read_file(dtrain_program(), kDataBytesMax));
  const std::string id(job::build_id());
  std::string other = id;
  other[0] = other[0] == '9' ? '8' : '9';
  size_t replaced = 0;
  for (size_t at = 0; (at = program.find(id, at)) != std::string::npos; at += id.size(), replaced++) {
    program.replace(at, id.size(), other);
  }
  REQUIRE(replaced > 0);
  must(write_file_atomic(path, program));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

// A data set at the same path on this host and on all hosts, each of which has a /tmp of its own. `dir`: a directory
// that the hosts see.
class DataEverywhere {
 public:
  DataEverywhere(const Hosts& hosts, const TempDir& dir) : own_("/tmp") {
    do_here(dtrain_program() + " data synth --out " + dir.path("original") + " --count 60 --size 28");
    const std::string copy = " && cp -r " + dir.path("original") + " " + path();
    do_here("true" + copy);
    for (int i = 0; i < hosts.count(); i++) do_on(hosts, i, "mkdir -p " + own_.path() + copy);
  }
  [[nodiscard]] std::string path() const { return own_.path("data"); }

 private:
  TempDir own_;
};

}  // namespace

TEST_CASE("the doctor finds nothing wrong with hosts that are in order", "[doctor]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const DataEverywhere data(*hosts, dir);
  const Ended end = doctor(
      *hosts, dir,
      {"-H", hosts->host_file(), "-n", "3", "-s", "2", "--network", "lenet", "--data-dir", data.path(), "--perf"});
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(has_row(end.output, "ssh", "pass", "3 hosts"));
  CHECK(has_row(end.output, "ports", "pass", "all 9 connections work"));
  CHECK(has_row(end.output, "run directory", "pass", "writable, shared by all hosts"));
  CHECK(has_row(end.output, "equal data", "pass", "3 hosts"));
  CHECK(contains(end.output, "bandwidth in MB/s, from the row's host"));
  CHECK(contains(end.output, " failed, 5 skipped\n"));
  CHECK(!std::filesystem::exists(dir.path("runs")));
  CHECK(hosts->all_quiet(15));

  const Ended alone = doctor(*hosts, dir, {"-i", hosts->interface(), "--json"});
  CHECK(alone.code == 0);
  CHECK(contains(alone.output,
                 R"({"check":"interface","verdict":"pass","hosts":["this host"],"found":")" + hosts->gateway()));
}

TEST_CASE("the doctor names each host on which something is wrong", "[doctor]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  const TempDir small("/tmp");
  const DataEverywhere data(*hosts, dir);
  const std::vector<std::string> address = {hosts->address(0), hosts->address(1), hosts->address(2)};
  const std::string run_dir = small.path("run");

  // Host 0: a limit of open files that is too low, and a small disk. Host 1: another build, and a file that is missing.
  // Host 2: a file that differs; and no frame gets from host 1 to it.
  do_here("prlimit --nofile=80:80 --pid $(cat $(dirname " + hosts->host_file() + ")/sshd-1.pid)");
  for (int i = 0; i < 3; i++) do_on(*hosts, i, "mkdir -p " + small.path());
  do_on(*hosts, 0, "mount -t tmpfs -o size=1m tmpfs " + small.path());
  write_other_build(dir.path("other"));
  do_on(*hosts, 1, "mount --bind " + dir.path("other") + " " + dtrain_program());
  do_on(*hosts, 1, "rm " + data.path() + "/test.rec");
  do_on(*hosts, 2, "printf '99\\t0\\n' >> " + data.path() + "/train.idx");
  do_on(*hosts, 1, "ip neigh replace " + address[2] + " lladdr 02:00:00:00:00:99 dev eth0 nud permanent");

  const Ended end = doctor(*hosts, dir,
                           {"-H", hosts->host_file(), "-n", "3", "-s", "3", "--network", "lenet", "--data-dir",
                            data.path(), "--run-dir", run_dir});
  INFO(end.output);
  CHECK(end.code == 1);
  CHECK(has_row(end.output, "ssh", "pass", "3 hosts"));
  CHECK(has_row(end.output, "open files", "fail", address[0] + "  80, but the job's processes on this host need 141"));
  CHECK(contains(end.output, "remedy: raise the hard limit (ulimit -Hn)"));
  CHECK(has_row(end.output, "disk space", "fail", address[0]));
  CHECK(contains(end.output, "remedy: free some space, or choose another place with --run-dir"));
  CHECK(has_row(end.output, "build", "fail", address[1]));
  CHECK(has_row(end.output, "data", "fail", address[1]));
  CHECK(contains(end.output, "test.rec"));
  CHECK(has_row(end.output, "equal data", "fail", address[2]));
  CHECK(has_row(end.output, "ports", "fail", address[2] + "  cannot be reached from " + address[1]));
  CHECK(has_row(end.output, "run directory", "pass", "not shared"));
  CHECK(contains(end.output, "remedy: allow these ports in the firewalls between the hosts"));

  const Ended interface = doctor(*hosts, dir, {"-H", hosts->host_file(), "-i", "eth9"});
  INFO(interface.output);
  CHECK(interface.code == 1);
  CHECK(has_row(interface.output, "interface", "fail", address[0]));
  CHECK(contains(interface.output, "remedy: give the name of an interface of this host"));

  const Ended ports = doctor(*hosts, dir, {"-H", hosts->host_file(), "--port-range", "22-22"});  // that of sshd
  INFO(ports.output);
  CHECK(ports.code == 1);
  CHECK(contains(ports.output, "ports 22-22: Address already in use"));
  CHECK(contains(ports.output, "remedy: give ports that are free on every host"));
  CHECK(hosts->all_quiet(15));
}

TEST_CASE("the doctor ends with code 3 if hosts cannot be examined, and examines the others", "[doctor]") {
  const auto hosts = make_or_skip<Hosts>(3);
  if (hosts == nullptr) return;
  const TempDir dir;
  hosts->cut_off(2);
  must(write_file_atomic(dir.path("hosts"), hosts->address(0) + "\n" + hosts->address(1) + ":23\n" + hosts->address(1) +
                                                " user=dtrain-nobody\n" + hosts->address(2) +
                                                "\nno-such-host.invalid\n"));
  const Ended end = doctor(*hosts, dir, {"-H", "hosts"});
  INFO(end.output);
  CHECK(end.code == 3);
  CHECK(contains(end.output, "Connection refused"));
  CHECK(contains(end.output, "remedy: start sshd on " + hosts->address(1)));
  CHECK(contains(end.output, "Permission denied"));
  CHECK(contains(end.output, "remedy: let ssh log in without a password: ssh-copy-id"));
  CHECK(has_row(end.output, "ssh", "fail", hosts->address(2)));
  CHECK(contains(end.output, "Could not resolve hostname no-such-host.invalid"));
  CHECK(has_row(end.output, "names", "fail", "cannot resolve no-such-host.invalid"));
  CHECK(contains(end.output, "remedy: correct the host file, or add the name to DNS or /etc/hosts"));
  CHECK(has_row(end.output, "clock", "pass", hosts->address(0)));
  CHECK(contains(end.output, "; 4 hosts could not be examined\n"));
}
