// The checks of dtrain doctor: each one passes on hosts that are alike and in order, and fails on what it is there for,
// with the remedy that the user reads.

#include <algorithm>

#include "doctor/checks.h"
#include "doctor/report.h"
#include "support/catch.h"
#include "support/text.h"

using namespace dtrain::doctor;
using dtrain::test::contains;

namespace {

constexpr double kGiB = 1 << 30;

Facts good_facts(const std::string& name) {
  Facts facts;
  facts.build_id = "1.0-abc";
  facts.host_name = name;
  facts.processor = {.name = "Some CPU", .cores = 8, .isa = known_isa()};
  facts.open_files = 65536;
  facts.shm_bytes = facts.shm_free_bytes = int64_t{8} << 30;
  facts.memory_bytes = 16 * kGiB;
  facts.memory_free_bytes = 12 * kGiB;
  for (const char* host : {"node1", "node2", "node3"}) {
    facts.names.push_back({.name = host, .addresses = {std::string("10.0.0.") + host[4]}});
  }
  facts.address = "10.0.0.9";
  facts.port = 4000;
  facts.run_directory = {.path = "/w/runs/x", .existing = "/w", .writable = true, .free_bytes = int64_t{100} << 30};
  facts.needs = {.worker = 2 * kGiB, .server = kGiB, .checkpoint = kGiB};
  facts.files = {{.path = "train.rec", .bytes = 1000, .checksum = 1},
                 {.path = "train.idx", .bytes = 10, .checksum = 2}};
  facts.speeds = {.disk_write = 5e8, .disk_read = 1e9, .decode = 1000};
  return facts;
}

// A host that launches, and three hosts with a worker and a server each.
Examined good() {
  Examined all;
  all.asked = {.starter = "ssh", .job = true, .perf = true, .workers = 3, .servers = 3, .checkpoints = 11};
  all.hosts.push_back({.name = "this host", .is_launcher = true, .is_here = true, .facts = good_facts("here")});
  for (int i = 1; i <= 3; i++) {
    HostReport host{.name = "node" + std::to_string(i), .workers = 1, .servers = 1, .has_first_worker = i == 1};
    host.facts = good_facts(host.name);
    host.shares_run_directory = true;
    for (int to = 0; to <= 3; to++) {
      if (to != i) host.contacts.push_back({.host = to, .round_trip_s = 1e-4, .clock_ahead_s = 1e-3});
    }
    all.hosts.push_back(std::move(host));
  }
  for (size_t a = 1; a <= 3; a++) {
    for (size_t b = a + 1; b <= 3; b++) all.pairs.push_back({a, b, {.out = 1e9, .back = 1e9}});
  }
  return all;
}

Examined with_gpus() {
  Examined all = good();
  for (size_t i = 1; i <= 3; i++) {
    all.hosts[i].gpus = 2;
    all.hosts[i].facts->gpus = {.asked = true,
                                .found = {"gpu(0) A", "gpu(1) A"},
                                .count = 2,
                                .driver = "550.54",
                                .cuda = "12.4",
                                .nccl = "2.21.5"};
  }
  return all;
}

using Check = std::vector<Row> (*)(const Examined&);

// The check has a single row, of this verdict, on these hosts, in which both texts occur.
void check_row(Check check, const Examined& all, Verdict verdict, const std::vector<std::string>& hosts,
               const std::string& found, const std::string& remedy) {
  const std::vector<Row> rows = check(all);
  REQUIRE(rows.size() == 1);
  INFO(rows[0].found << " | " << rows[0].remedy);
  CHECK(rows[0].verdict == verdict);
  CHECK(rows[0].hosts == hosts);
  CHECK(contains(rows[0].found, found));
  CHECK(contains(rows[0].remedy, remedy));
  CHECK(rows[0].remedy.empty() == (verdict <= Verdict::kPass));
}

Facts& facts_of(Examined& all, size_t host) {
  return *all.hosts[host].facts;
}

}  // namespace

TEST_CASE("hosts that are alike and in order pass every check in one row each", "[doctor]") {
  const Examined all = with_gpus();
  const std::vector<Row> rows = check_all(all);
  CHECK(rows.size() == 23);
  for (const Row& row : rows) {
    INFO(row.check << ": " << row.found);
    CHECK(row.verdict == Verdict::kPass);
    CHECK(!row.found.empty());
  }
  CHECK(exit_code(all, rows) == 0);
  CHECK(contains(table(all, rows, 0), "\ndoctor: 23 checks, 0 warnings, 0 failed\n"));
}

TEST_CASE("what was skipped is skipped", "[doctor]") {
  Examined all = good();
  all.asked = {};
  all.hosts.resize(1);
  all.pairs.clear();
  for (const Check check : {check_gpus, check_driver, check_cuda, check_nccl, check_run_directory, check_flags,
                            check_data_present, check_latency, check_bandwidth, check_disk_speed, check_decode_speed}) {
    const std::vector<Row> rows = check(all);
    REQUIRE(rows.size() == 1);
    INFO(rows[0].check << ": " << rows[0].found);
    CHECK(rows[0].verdict == Verdict::kSkip);
    CHECK(contains(rows[0].found, "skipped"));
  }
  CHECK(check_reach(all).empty());
  // What the host has is shown without a job, too.
  for (const Check check : {check_disk_space, check_memory}) {
    const std::vector<Row> rows = check(all);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].verdict == Verdict::kPass);
    CHECK(contains(rows[0].found, " free "));
  }
}

TEST_CASE("a host that cannot be examined is named with a remedy, and the code is 3", "[doctor]") {
  Examined all = good();
  const std::string words = "node2 cannot be reached by ssh: root@node2: Permission denied (publickey).";
  all.hosts[2].facts.reset();
  all.hosts[2].error = words;
  check_row(check_reach, all, Verdict::kFail, {"node2"}, words, "ssh-copy-id node2; test: ssh -o BatchMode=yes node2");
  CHECK(exit_code(all, check_all(all)) == 3);
  CHECK(contains(table(all, check_all(all), 0), "; 1 host could not be examined\n"));
}

TEST_CASE("the remedy follows from the words of ssh and of the launcher", "[doctor]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Host key verification failed.", "accept the host's key once: ssh n"},
      {"REMOTE HOST IDENTIFICATION HAS CHANGED!", "ssh-keygen -R n"},
      {"ssh: Could not resolve hostname n: Name or service not known", "correct the name in the host file"},
      {"ssh: connect to host n port 22: Connection refused", "start sshd on n"},
      {"ssh: connect to host n port 22: Connection timed out", "firewall admit port 22"},
      {"ssh: connect to host n port 22: No route to host", "repair the route"},
      {"n has no executable '/a/dtrain'", "--sync-dst-dir"},
      {"n has no directory '/a'", "create the directory on n"},
      {"dtrain: error while loading shared libraries: libgrpc.so", "install the same packages"},
      {"/lib/libc.so.6: version `GLIBC_2.38' not found", "build dtrain on n"},
      {"dtrain on this host ended with code 132", "lacks instructions"},
      {"something else", "ssh -v -o BatchMode=yes n true"},
  };
  for (const auto& [words, remedy] : cases) {
    INFO(words);
    CHECK(contains(remedy_for_unreachable(words, "n", "ssh"), remedy));
  }
  CHECK(contains(remedy_for_unreachable("?", "n", "mpirun"), "use mpirun to start"));
}

TEST_CASE("another build fails, or warns if mixed builds are allowed", "[doctor]") {
  Examined all = good();
  facts_of(all, 3).build_id = "1.0-def";
  check_row(check_build, all, Verdict::kFail, {"node3"}, "1.0-def, but this host has 1.0-abc", "--sync-dst-dir");
  all.asked.allow_mixed_builds = true;
  check_row(check_build, all, Verdict::kWarn, {"node3"}, "1.0-def", "copy this host's executable");
}

TEST_CASE("a processor that differs warns, and one that lacks what the build needs fails", "[doctor]") {
  Examined all = good();
  facts_of(all, 2).processor.isa = {"sse4_2", "avx", "fma", "avx2"};
  check_row(check_processor, all, Verdict::kWarn, {"node2"}, "AVX2 (Some CPU), but most hosts have AVX-512",
            "dtrain plan");
  if (needed_isa().empty()) return;  // this build runs on every x86-64 processor
  facts_of(all, 2).processor.isa = {};
  check_row(check_processor, all, Verdict::kFail, {"node2"}, "lacks", "build dtrain on this host");
}

TEST_CASE("a low limit of open files fails", "[doctor]") {
  Examined all = good();
  facts_of(all, 1).open_files = 64;
  check_row(check_open_files, all, Verdict::kFail, {"node1"}, "64, but the job's processes on this host need 141",
            "/etc/security/limits.conf");
}

TEST_CASE("a small or missing /dev/shm matters between several GPUs", "[doctor]") {
  Examined all = good();
  facts_of(all, 1).shm_bytes = facts_of(all, 1).shm_free_bytes = 64 << 20;
  CHECK(check_shared_memory(all)[0].verdict == Verdict::kPass);
  all.hosts[1].gpus = 2;
  check_row(check_shared_memory, all, Verdict::kWarn, {"node1"}, "64.0 MiB free of 64.0 MiB",
            "docker run --shm-size=1g");
  facts_of(all, 1).shm_bytes = 0;
  check_row(check_shared_memory, all, Verdict::kFail, {"node1"}, "there is no /dev/shm", "mount -t tmpfs");
}

TEST_CASE("names that cannot be resolved fail here and warn elsewhere", "[doctor]") {
  Examined all = good();
  const ResolvedName unknown{.name = "node2", .error = "Name or service not known"};
  facts_of(all, 1).names[1] = unknown;
  check_row(check_names, all, Verdict::kWarn, {"node1"}, "cannot resolve node2: Name or service", "uses addresses");
  all.asked.names_matter = true;
  check_row(check_names, all, Verdict::kFail, {"node1"}, "cannot resolve node2", "add the name to DNS");
  facts_of(all, 0).names[1] = unknown;  // then the others are not blamed
  check_row(check_names, all, Verdict::kFail, {"this host"}, "cannot resolve node2", "correct the host file");
}

TEST_CASE("a name that means different hosts warns; a loopback address of the own name does not", "[doctor]") {
  Examined all = good();
  facts_of(all, 1).names[0].addresses = {"127.0.1.1"};
  CHECK(check_names(all)[0].verdict == Verdict::kPass);
  facts_of(all, 3).names[0].addresses = {"10.0.0.77"};
  check_row(check_names, all, Verdict::kWarn, {"node3"}, "'node1' resolves to 10.0.0.77, but to 10.0.0.1 on most hosts",
            "make /etc/hosts the same");
}

TEST_CASE("a wrong interface, and a loopback address among hosts, fail", "[doctor]") {
  Examined all = good();
  facts_of(all, 2).address_error = "no interface 'eth9' has an address on node2";
  check_row(check_interface, all, Verdict::kFail, {"node2"}, "no interface 'eth9'", "-i NAME,NAME");
  facts_of(all, 2).address_error = "";
  facts_of(all, 2).address = "127.0.0.1";
  check_row(check_interface, all, Verdict::kFail, {"node2"}, "other hosts cannot reach", "-i NAME");
}

TEST_CASE("a loopback address is right where every line of the host file is this host", "[doctor]") {
  Examined all = good();
  for (HostReport& host : all.hosts) {
    host.is_here = true;
    host.facts->address = "127.0.0.1";
  }
  CHECK(check_interface(all)[0].verdict == Verdict::kPass);
  all.hosts[3].is_here = false;
  CHECK(check_interface(all)[0].verdict == Verdict::kFail);
}

TEST_CASE("a blocked port names both ends, or the host that is cut off from many", "[doctor]") {
  Examined all = good();
  all.hosts[2].contacts[2].error = "cannot connect to 10.0.0.3:4000: Connection timed out";  // node2 to node3
  check_row(check_ports, all, Verdict::kFail, {"node3"}, "cannot be reached from node2: Connection timed out",
            "allow these ports in the firewalls between the hosts (--port-range");
  all.hosts[1].contacts[2].error = "cannot connect to 10.0.0.3:4000: Connection timed out";  // node1 to node3
  check_row(check_ports, all, Verdict::kFail, {"node3"}, "cannot be reached from node1 and node2", "firewalls");

  Examined outward = good();  // node1 reaches nobody
  for (Contact& contact : outward.hosts[1].contacts) contact.error = "cannot connect to x: Connection refused";
  check_row(check_ports, outward, Verdict::kFail, {"node1"},
            "cannot connect to this host, node2 and node3: Connection refused", "the target's firewall");
}

TEST_CASE("a host without a free port in the range fails, and so does one that tells nothing", "[doctor]") {
  Examined all = good();
  facts_of(all, 1).listen_error = "cannot listen at 10.0.0.1, ports 4000-4000: Address already in use";
  check_row(check_ports, all, Verdict::kFail, {"node1"}, "Address already in use", "free on every host: --port-range");
  facts_of(all, 1).listen_error = "";
  all.hosts[1].contact_error = "the host did not connect to the other hosts: the connection to node1 broke";
  check_row(check_ports, all, Verdict::kFail, {"node1"}, "the connection to node1 broke", "run dtrain doctor again");
}

TEST_CASE("a clock that is wrong warns, and fails from five minutes on", "[doctor]") {
  Examined all = good();
  all.hosts[2].contacts[0].clock_ahead_s = -2.5;  // this host's clock is behind node2's
  check_row(check_clock, all, Verdict::kWarn, {"node2"}, "its clock is 2.5 s ahead of this host's", "NTP");
  all.hosts[2].contacts[0].clock_ahead_s = 3600;
  check_row(check_clock, all, Verdict::kFail, {"node2"}, "3.6e+03 s behind this host's", "timedatectl set-ntp true");
}

TEST_CASE("GPUs, driver, CUDA and NCCL fail or warn one by one", "[doctor]") {
  Examined all = with_gpus();
  facts_of(all, 1).gpus.error = "there is no GPU";
  check_row(check_gpus, all, Verdict::kFail, {"node1"}, "there is no GPU", "--cpus N");
  facts_of(all, 1).gpus.driver = "";
  check_row(check_driver, all, Verdict::kFail, {"node1"}, "no NVIDIA driver", "install the NVIDIA driver");
  CHECK(check_cuda(all)[0].verdict == Verdict::kPass);  // node1 is named by the row of GPUs
  facts_of(all, 2).gpus.driver = "535.1";
  CHECK(check_driver(all).back().verdict == Verdict::kWarn);
  facts_of(all, 2).gpus.cuda = "11.8";
  check_row(check_cuda, all, Verdict::kWarn, {"node2"}, "11.8, but most hosts have 12.4", "the same version");
  facts_of(all, 2).gpus.cuda = "";
  check_row(check_cuda, all, Verdict::kFail, {"node2"}, "does not report its version", "install the CUDA runtime");
  facts_of(all, 3).gpus.nccl = "";
  check_row(check_nccl, all, Verdict::kWarn, {"node3"}, "does not include NCCL", "needed only for several GPUs");
}

TEST_CASE("a run directory that cannot be written fails, and one that is not shared matters to --resume", "[doctor]") {
  Examined all = good();
  facts_of(all, 2).run_directory.writable = false;
  facts_of(all, 2).run_directory.error = "Permission denied";
  check_row(check_run_directory, all, Verdict::kFail, {"node2"}, "'/w' is not writable: Permission denied",
            "--run-dir");
  all = good();
  all.hosts[3].shares_run_directory = false;
  CHECK(check_run_directory(all)[0].verdict == Verdict::kPass);
  CHECK(contains(check_run_directory(all)[0].found, "not shared: checkpoints stay on the host of worker 0"));
  all.asked.resumes = true;
  check_row(check_run_directory, all, Verdict::kWarn, {"node3"}, "not the same directory as on this host",
            "shared file system");
}

TEST_CASE("disk space is compared with the checkpoints of worker 0", "[doctor]") {
  Examined all = good();
  for (size_t host = 0; host <= 3; host++) facts_of(all, host).run_directory.free_bytes = int64_t{1} << 30;
  check_row(check_disk_space, all, Verdict::kFail, {"node1"}, "the run needs at least 2.0 GiB", "free some space");
  facts_of(all, 1).run_directory.free_bytes = int64_t{5} << 30;
  check_row(check_disk_space, all, Verdict::kWarn, {"node1"}, "all checkpoints take 11.0 GiB", "--keep");
  facts_of(all, 1).run_directory.free_bytes = int64_t{50} << 30;
  facts_of(all, 2).run_directory.free_bytes = 1 << 20;
  check_row(check_disk_space, all, Verdict::kFail, {"node2"}, "needs at least 64.0 MiB", "--run-dir");
}

TEST_CASE("flags that a host cannot use fail there", "[doctor]") {
  Examined all = good();
  facts_of(all, 1).flags_error = "--config: job.toml: no such file";
  check_row(check_flags, all, Verdict::kFail, {"node1"}, "job.toml", "copy the files that they name");
}

TEST_CASE("data that are missing or differ fail on their host", "[doctor]") {
  Examined all = good();
  facts_of(all, 1).files.clear();
  facts_of(all, 1).data_error = "data: no such directory";
  facts_of(all, 1).needs.error = "data: no such directory";
  check_row(check_data_present, all, Verdict::kFail, {"node1"}, "data: no such directory",
            "copy the data to this path");
  CHECK(check_flags(all)[0].verdict == Verdict::kPass);  // the row of data says it
  facts_of(all, 2).files[0].error = "train.rec: Permission denied";
  const std::vector<Row> rows = check_data_present(all);
  REQUIRE(rows.size() == 2);
  CHECK(contains(rows[1].found, "Permission denied"));
  CHECK(contains(rows[1].remedy, "allow this user to read it"));

  all = good();
  facts_of(all, 3).files[1].checksum = 77;
  check_row(check_data_equal, all, Verdict::kFail, {"node3"},
            "train.idx has 10 bytes, checksum 0000004d, but on most hosts it has "
            "10 bytes, checksum 00000002",
            "rsync");
  facts_of(all, 3).files[1].checksum = 2;
  facts_of(all, 3).files[0].bytes = 999;
  check_row(check_data_equal, all, Verdict::kFail, {"node3"}, "train.rec has 999 bytes", "copy the same file");
}

TEST_CASE("memory counts the processes of each host", "[doctor]") {
  Examined all = good();
  facts_of(all, 2).memory_free_bytes = 2.5 * kGiB;
  check_row(check_memory, all, Verdict::kWarn, {"node2"},
            "need at least 3.0 GiB, but only 2.5 GiB of 16.0 GiB are free", "end other programs");
  facts_of(all, 2).memory_free_bytes = 12 * kGiB;
  all.hosts[3].workers = 8;
  check_row(check_memory, all, Verdict::kFail, {"node3"}, "need at least 17.0 GiB, but the host has 16.0 GiB",
            "slots= in the host file");
}

TEST_CASE("slow paths, disks and decoders warn", "[doctor]") {
  Examined all = good();
  all.hosts[1].contacts[1].round_trip_s = 0.02;
  check_row(check_latency, all, Verdict::kWarn, {"node1"}, "a round trip to node2 takes 20 ms, but usually 100 us",
            "cable");
  all.pairs[0].speed.back = 1e8;
  check_row(check_bandwidth, all, Verdict::kWarn, {"node2"}, "100 MB/s to node1, but usually 1 GB/s", "ethtool");
  all.pairs[0].speed = {.error = "the connection broke"};
  check_row(check_bandwidth, all, Verdict::kFail, {"node1"}, "to node2: the connection broke", "row 'ports'");
  facts_of(all, 2).speeds.disk_write = 1e7;
  check_row(check_disk_speed, all, Verdict::kWarn, {"node2"}, "writes 10 MB/s, usually 500 MB/s",
            "checkpoints take longer");
  facts_of(all, 3).speeds.decode = 100;
  check_row(check_decode_speed, all, Verdict::kWarn, {"node3"}, "100 images/s, usually 1000", "--data-nthreads");
}

TEST_CASE("findings are grouped, the worst first", "[doctor]") {
  Examined all = good();
  facts_of(all, 1).memory_free_bytes = facts_of(all, 2).memory_free_bytes = kGiB;
  all.hosts[3].workers = 8;
  const std::vector<Row> rows = check_memory(all);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].verdict == Verdict::kFail);
  CHECK(rows[1].hosts == std::vector<std::string>{"node1", "node2"});
  CHECK(exit_code(all, rows) == 1);
}

// A hundred hosts need no more lines than three, and only those that deviate are named.
TEST_CASE("the table of a hundred hosts stays short", "[doctor]") {
  Examined all = good();
  for (int i = 4; i <= 100; i++) {
    all.hosts.push_back(all.hosts[3]);
    all.hosts.back().name = "node" + std::to_string(i);
  }
  all.asked.perf = false;
  all.pairs.clear();
  for (size_t i = 40; i < 60; i++) facts_of(all, i).build_id = "1.0-def";
  const std::string text = table(all, check_all(all), 100);
  INFO(text);
  CHECK(contains(text, "ssh            pass     100 hosts"));
  CHECK(contains(text, "build          fail     node40, node41 and 18 others"));
  CHECK(contains(text, "remedy: copy this host's executable"));
  CHECK(std::count(text.begin(), text.end(), '\n') < 32);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

TEST_CASE("with --perf the table has matrices, or the slowest paths of many hosts", "[doctor]") {
  Examined all = good();
  all.pairs[0].speed.out = 2.5e8;
  const std::string text = table(all, check_all(all), 0);
  INFO(text);
  CHECK(contains(text, "bandwidth in MB/s, from the row's host to the column's host"));
  CHECK(contains(text, " 1  node1       -     250    1000\n"));
  CHECK(contains(text, " 1  node1     0.1       -     0.1     0.1\n"));
  for (int i = 4; i <= 20; i++) all.hosts.push_back(all.hosts[3]);
  const std::string many = table(all, check_all(all), 0);
  CHECK(contains(many, "the slowest of 6 paths"));
  CHECK(contains(many, "    250 MB/s  node1 to node2\n"));
}

TEST_CASE("the JSON of the examination has rows, hosts, contacts and paths", "[doctor]") {
  Examined all = good();
  facts_of(all, 3).build_id = "1.0-def";
  all.hosts[2].facts.reset();
  all.hosts[2].error = "off";
  const std::string text = json_line(all, check_all(all));
  CHECK(contains(text, R"("exit_code":3,)"));
  CHECK(contains(text, R"("hosts_not_examined":1)"));
  CHECK(contains(text, R"({"check":"build","verdict":"fail","hosts":["node3"],"found":"1.0-def, but)"));
  CHECK(contains(text, R"({"name":"node2","workers":1,"servers":1,"error":"off"})"));
  CHECK(contains(text, R"({"from":"node1","to":"node3","round_trip_s":)"));
  CHECK(contains(text, R"({"from":"node2","to":"node1","bytes_per_s":1000000000.0})"));
}

TEST_CASE("facts survive their way as a line, and anything else is refused", "[doctor]") {
  const Facts facts = good_facts("node1");
  const auto read = parse_facts(to_line(facts));
  REQUIRE(read);
  CHECK(to_line(*read) == to_line(facts));
  CHECK(read->names[2].addresses == std::vector<std::string>{"10.0.0.3"});
  const std::string line = to_line(facts);
  for (size_t length = 0; length < line.size(); length += 7) CHECK(!parse_facts(line.substr(0, length)));
  CHECK(!parse_facts(R"({"names":[1]})"));
  CHECK(!parse_facts("[]"));
  CHECK(parse_facts(R"({"build_id":"of another build"})"));
  CHECK(!parse_contact("12"));
  CHECK(parse_path_speed(to_line(PathSpeed{.out = 2}))->out == 2);
}
