#include "job/process/host_file.h"

#include "base/file.h"
#include "job/parse.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

namespace {

HostFile hosts_in(const std::string& text) {
  const Result<HostFile> file = parse_host_file(text, "hosts");
  INFO((file ? "" : file.error().text()));
  REQUIRE(file);
  return *file;
}

std::string refused_hosts(const std::string& text) {
  const Result<HostFile> file = parse_host_file(text, "hosts");
  REQUIRE_FALSE(file);
  CHECK(file.error().code == Code::kUsage);
  return file.error().message;
}

HostAssignment assigned(const std::string& text, int64_t servers, int64_t workers,
                        HostOrder order = HostOrder::kSpread) {
  const Result<HostAssignment> assignment = assign_hosts(hosts_in(text), {servers, workers, order});
  INFO((assignment ? "" : assignment.error().text()));
  REQUIRE(assignment);
  return *assignment;
}

std::string refused_seats(const std::string& text, int64_t servers, int64_t workers,
                          HostOrder order = HostOrder::kSpread) {
  const Result<HostAssignment> assignment = assign_hosts(hosts_in(text), {servers, workers, order});
  REQUIRE_FALSE(assignment);
  CHECK(assignment.error().code == Code::kUsage);
  return assignment.error().message;
}

std::string names(const std::vector<ProcessSlot>& slots) {
  std::string text;
  for (const ProcessSlot& slot : slots) text += (text.empty() ? "" : " ") + slot.host;
  return text;
}

// Repeated hosts, ports, slots and IPv6.
constexpr const char* kMixed =
    "# the rack at the door\n"
    "node1 slots=2 gpus=0,1   # two of each\n"
    "node2:2222 user=train\n"
    "\n"
    "[fe80::1%eth0]:22 role=worker\n"
    "[2001:db8::7] role=server slots=1\n"
    "172.30.0.172\n"
    "node2:2222\n";

}  // namespace

TEST_CASE("a host file says how to reach each host and what runs there", "[job]") {
  const HostFile file = hosts_in(kMixed);
  REQUIRE(file.lines.size() == 6);
  CHECK(file.lines[0].host == "node1");
  CHECK(file.lines[0].ssh_port == 0);
  CHECK(file.lines[0].slots == 2);
  CHECK(file.lines[0].gpus.numbers == std::vector<int64_t>{0, 1});
  CHECK(file.lines[1].host == "node2");
  CHECK(file.lines[1].ssh_port == 2222);
  CHECK(file.lines[1].user == "train");
  CHECK_FALSE(file.lines[1].slots);
  CHECK(file.lines[2].host == "fe80::1%eth0");
  CHECK(file.lines[2].ssh_port == 22);
  CHECK(file.lines[2].role == Role::kWorker);
  CHECK(file.lines[2].number == 5);
  CHECK(file.lines[3].host == "2001:db8::7");
  CHECK(file.lines[3].role == Role::kServer);
  CHECK(file.lines[4].host == "172.30.0.172");
}

TEST_CASE("servers and then workers are assigned to the hosts in turn", "[job]") {
  const HostAssignment mixed = assigned(kMixed, 3, 6);
  CHECK(names(mixed.servers) == "node1 node2 2001:db8::7");
  CHECK(names(mixed.workers) == "172.30.0.172 node2 node1 node2 fe80::1%eth0 172.30.0.172");
  // As dmlc's launcher places them: servers, then workers, go to the hosts in turn.
  const HostAssignment plain = assigned("172.30.0.172\n172.30.0.171\n", 1, 2);
  CHECK(names(plain.servers) == "172.30.0.172");
  CHECK(names(plain.workers) == "172.30.0.171 172.30.0.172");
  CHECK(names(assigned("172.30.0.172\n172.31.0.173\n172.30.1.174\n", 3, 3).workers) ==
        "172.30.0.172 172.31.0.173 172.30.1.174");
}

// The host file of MXNet-G's repository has twelve lines. With twelve servers, worker r is on line r.
TEST_CASE("a repeated host gets one turn for each of its lines", "[job]") {
  const std::string text =
      "10.10.10.25\n10.10.10.26\n10.10.10.29\n10.10.10.29\n10.10.10.30\n10.10.10.30\n"
      "10.10.10.31\n10.10.10.31\n10.10.10.31\n10.10.10.33\n10.10.10.33\n10.10.10.33\n";
  CHECK(names(assigned(text, 12, 12).workers) ==
        "10.10.10.25 10.10.10.26 10.10.10.29 10.10.10.29 10.10.10.30 10.10.10.30 10.10.10.31 10.10.10.31 10.10.10.31 "
        "10.10.10.33 10.10.10.33 10.10.10.33");
  CHECK(names(assigned("a\na\nb\n", 0, 4).workers) == "a a b a");
}

TEST_CASE("slots limit the processes of a host, and packing fills them host by host", "[job]") {
  CHECK(names(assigned("a slots=1\nb\n", 0, 4).workers) == "a b b b");
  CHECK(names(assigned("a slots=1\nb slots=3\nc slots=2\n", 1, 5).workers) == "b c b c b");
  const HostAssignment packed = assigned("a slots=2\nb slots=3\nc slots=2\n", 1, 5, HostOrder::kPack);
  CHECK(names(packed.servers) == "a");
  CHECK(names(packed.workers) == "a b b b c");
  CHECK(names(assigned("a slots=2 role=worker\nb slots=3\n", 2, 3, HostOrder::kPack).servers) == "b b");
  CHECK_THAT(refused_seats("a slots=1\nb slots=2\n", 1, 3), Contains("hosts: there is no slot for worker 2 (of 3)"));
  CHECK_THAT(refused_seats("a role=worker\n", 1, 1), Contains("there is no slot for server 0 (of 1)"));
  CHECK_THAT(refused_seats("# two\na slots=1\nb\n", 0, 1, HostOrder::kPack),
             Contains("hosts:3: --host-order pack") && Contains("slots=K for 'b'"));
}

TEST_CASE("a host's GPUs are divided among its workers", "[job]") {
  const auto gpus = [](const HostAssignment& assignment) {
    std::vector<std::vector<int64_t>> all;
    for (const ProcessSlot& slot : assignment.workers) all.push_back(slot.gpus.numbers);
    return all;
  };
  using Lists = std::vector<std::vector<int64_t>>;
  CHECK(gpus(assigned("a gpus=0,1,2,3\nb gpus=1,0\nc\n", 0, 4)) == Lists{{0, 1}, {1, 0}, {}, {2, 3}});
  CHECK(gpus(assigned("a gpus=0,1,2\n", 1, 2)) == Lists{{0}, {1, 2}});
  CHECK(gpus(assigned("a gpus=4-6,0\n", 0, 2)) == Lists{{4, 5}, {6, 0}});
  // A host has the GPUs of all its lines.
  CHECK(gpus(assigned("a gpus=0,1\na gpus=0,1\n", 0, 2)) == Lists{{0}, {1}});
  CHECK(gpus(assigned("a gpus=3\nb\na gpus=5\n", 0, 3)) == Lists{{3}, {}, {5}});
  // A different port means a different host.
  CHECK(gpus(assigned("a:2201 gpus=0\na:2202 gpus=0\n", 0, 2)) == Lists{{0}, {0}});
  CHECK(assigned("a gpus=0\n", 3, 1).servers[2].gpus.empty());
  CHECK_THAT(refused_seats("a gpus=0\n", 0, 2), Contains("hosts: a has 1 GPUs for 2 workers"));
}

// With --gpus all, a process of each host finds out how many GPUs that are.
TEST_CASE("all GPUs of a host are divided among its workers in parts", "[job][gpus]") {
  const auto gpus = [](const std::string& text, int64_t workers, bool all_gpus) {
    const Result<HostAssignment> assignment =
        assign_hosts(hosts_in(text), {.servers = 1, .workers = workers, .all_gpus = all_gpus});
    INFO((assignment ? "" : assignment.error().text()));
    REQUIRE(assignment);
    CHECK(assignment->servers.front().gpus.empty());
    std::string all;
    for (const ProcessSlot& slot : assignment->workers) {
      all += fmt::format("{}{}={}", all.empty() ? "" : " ", slot.host, format_value(slot.gpus));
    }
    return all;
  };
  CHECK(gpus("s role=server\na\nb\n", 3, true) == "a=all:1/2 b=all a=all:2/2");
  CHECK(gpus("s role=server\na:2201\na:2202\na:2201 user=u\n", 3, true) == "a=all:1/2 a=all a=all:2/2");
  // gpus=auto means the same for one host, whatever the flags say.
  CHECK(gpus("s role=server\na gpus=auto\nb\n", 3, false) == "a=all:1/2 b= a=all:2/2");
  CHECK(gpus("s role=server\na gpus=auto\nb gpus=4-5\n", 4, false) == "a=all:1/2 b=4 a=all:2/2 b=5");
  CHECK(gpus("s role=server\na gpus=0\na gpus=all\n", 3, false) == "a=all:1/3 a=all:2/3 a=all:3/3");
  CHECK(hosts_in("a gpus=auto\n").lines[0].gpus == GpuList::all());
  // The numbers in the file count more than the flag.
  CHECK(gpus("s role=server\na gpus=2,3\nb\n", 3, true) == "a=2 b=all a=3");
  CHECK(gpus("s role=server\na\nb\n", 3, false) == "a= b= a=");
}

TEST_CASE("mistakes in a host file are refused with the number of the line", "[job]") {
  CHECK_THAT(refused_hosts("# nothing\n\n"), Contains("hosts: the file lists no host"));
  CHECK_THAT(refused_hosts("a\n-oProxyCommand=x\n"), Contains("hosts:2: '-oProxyCommand=x' is not the name"));
  CHECK_THAT(refused_hosts("slots=2\n"), Contains("hosts:1: 'slots=2' is not the name"));
  CHECK_THAT(refused_hosts("a b\n"), Contains("'b' is not KEY=VALUE"));
  CHECK_THAT(refused_hosts("a slot=2\n"), Contains("did you mean 'slots'?"));
  CHECK_THAT(refused_hosts("a slots=2 slots=3\n"), Contains("slots is given twice"));
  CHECK_THAT(refused_hosts("a slots=0\n"), Contains("slots: a host needs at least 1 slot, not 0"));
  CHECK_THAT(refused_hosts("a slots=x\n"), Contains("slots: 'x' is not a whole number"));
  CHECK_THAT(refused_hosts("a gpus=0,0\n"), Contains("gpus: '0,0' names GPU 0 twice"));
  CHECK_THAT(refused_hosts("a gpus=\n"), Contains("gpus: ''"));
  CHECK_THAT(refused_hosts("a gpus=-1\n"), Contains("gpus: '-1'"));
  CHECK_THAT(refused_hosts("a gpus=0-\n"), Contains("hosts:1: gpus: '0-' is neither"));
  CHECK_THAT(refused_hosts("a gpus=all:1/2\n"), Contains("gpus: 'all:1/2' does not name GPUs of the host"));
  CHECK_THAT(refused_hosts("a role=scheduler\n"), Contains("Choose from: server, worker, any"));
  CHECK_THAT(refused_hosts("a user=-l\n"), Contains("user: '-l'"));
  CHECK_THAT(refused_hosts("a:0\n"), Contains("'0' is not"));
  CHECK_THAT(refused_hosts("a:70000\n"), Contains("not a port from 1 to 65535"));
  CHECK_THAT(refused_hosts("a:\n"), Contains("hosts:1"));
  CHECK_THAT(refused_hosts("fe80::1\n"), Contains("needs brackets: [fe80::1]"));
  CHECK_THAT(refused_hosts("[fe80::1\n"), Contains("not an IPv6 address"));
  CHECK_THAT(refused_hosts("[node1]\n"), Contains("not an IPv6 address"));
  CHECK_THAT(refused_hosts("[fe80::1]22\n"), Contains("'22' after the address is not a port"));
  CHECK_THAT(refused_hosts("a:4\n"), Contains("for 4 processes on the host, write 'a slots=4'"));  // Horovod's form
  CHECK_THAT(refused_hosts("me@a user=you\n"), Contains("the user is given twice, as me@ and user=you"));
  CHECK_THAT(refused_hosts("-l@a\n"), Contains("'-l' is not the name of a user"));
  CHECK(hosts_in("a role=any\r\n").lines[0].role == Role::kNone);
}

TEST_CASE("a host may have its user before it, and the file a byte order mark", "[job]") {
  const HostFile file = hosts_in("\xef\xbb\xbfme@a\nyou@[fe80::1]:2222\n");
  CHECK(file.lines[0].host == "a");
  CHECK(file.lines[0].user == "me");
  CHECK(file.lines[1].host == "fe80::1");
  CHECK(file.lines[1].user == "you");
  CHECK(file.lines[1].ssh_port == 2222);
}

TEST_CASE("a truncated or modified host file is read or refused", "[job]") {
  const std::string good = kMixed;
  for (size_t size = 0; size < good.size(); size++) {
    const Result<HostFile> file = parse_host_file(good.substr(0, size), "hosts");
    if (file) CHECK_FALSE(file->lines.empty());
  }
  for (size_t i = 0; i < good.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const Result<HostFile> file = parse_host_file(bad, "hosts");
      if (!file) continue;
      const Result<HostAssignment> assignment = assign_hosts(*file, {3, 6, HostOrder::kSpread});
      if (assignment) CHECK(assignment->workers.size() == 6);
    }
  }
}

TEST_CASE("the host file that the flags name assigns the job's processes to hosts", "[job]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("hosts"), "a\nb\n"));
  const Flags flags = parsed({"-n", "3", "-s", "1", "-H", dir.path("hosts"), "--dry-run"});
  CHECK(names((*read_host_assignment(flags))->workers) == "b a b");
  CHECK_FALSE(*read_host_assignment(parsed({"-n", "3"})));
  const auto missing = read_host_assignment(parsed({"-n", "3", "-H", dir.path("none"), "--dry-run"}));
  CHECK(missing.error().code == Code::kUsage);
  CHECK_THAT(missing.error().message, Contains("none"));
}

namespace {

HostAssignment assigned_to(const HostFile& file, int64_t servers, int64_t workers) {
  const Result<HostAssignment> assignment = assign_hosts(file, {servers, workers, HostOrder::kSpread});
  REQUIRE(assignment);
  return *assignment;
}

}  // namespace

TEST_CASE("a spare host gets processes only in place of a host that is lost", "[job]") {
  HostFile file =
      hosts_in("a slots=2 gpus=0,1\nspare1:2222 user=u spare=1\nb slots=2\na slots=1\nspare2 spare=1 gpus=4-6\n");
  const auto hosts = [&file] {
    const HostAssignment assignment = assigned_to(file, 2, 3);
    std::string names;
    for (const auto* slots : {&assignment.servers, &assignment.workers}) {
      for (const ProcessSlot& slot : *slots) names += slot.host + " ";
    }
    return names;
  };
  CHECK(hosts() == "a b a a b ");
  const HostAssignment first = assigned_to(file, 2, 3);
  REQUIRE(first.spares.size() == 2);
  CHECK(first.spares[0].ssh == SshAddress{"spare1", 2222, "u"});
  CHECK(first.spares[1].gpus.numbers == std::vector<int64_t>{4, 5, 6});
  CHECK(ssh_addresses(file).size() == 4);  // `dtrain doctor -H` examines the spare hosts too
  CHECK(use_spare(file, {.host = "b"}) == "spare1");
  CHECK(hosts() == "a spare1 a a spare1 ");
  const HostAssignment now = assigned_to(file, 2, 3);
  CHECK(now.servers[1].ssh == SshAddress{"spare1", 2222, "u"});
  CHECK(use_spare(file, {.host = "a"}) == "spare2");
  CHECK(hosts() == "spare2 spare1 spare2 spare2 spare1 ");
  CHECK(assigned_to(file, 0, 1).workers[0].gpus.numbers == std::vector<int64_t>{4, 5, 6});
  CHECK_FALSE(use_spare(file, {.host = "spare2"}));
}

TEST_CASE("a host file needs a host that is no spare, and spare is 0 or 1", "[job]") {
  CHECK(refused_hosts("a spare=1\n") == "hosts: the file lists no host that is no spare");
  CHECK(refused_hosts("a spare=yes\n") == "hosts:1: spare: 'yes' is neither 0 nor 1");
}

}  // namespace dtrain::job
