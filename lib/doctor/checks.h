// The checks of `dtrain doctor`: functions without side effects that compute the rows of its table from the facts about
// the hosts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace dtrain::doctor {

// From best to worst; kSkip: the check was not requested, or is not possible.
enum class Verdict { kSkip, kPass, kWarn, kFail };
std::string_view word_of(Verdict verdict);  // the word for a verdict in the table, such as "pass"

// The results for one of the examined hosts.
struct HostReport {
  std::string name;  // as in the host file, or "this host"
  bool is_launcher = false;
  bool is_here = false;  // whether this is the launcher's host, perhaps under another name such as "localhost"
  int64_t workers = 0, servers = 0;  // processes of the job on this host
  int64_t gpus = 0;                  // number of GPUs that the workers on this host use
  bool has_first_worker = false;     // whether this host runs worker 0, which writes the checkpoints
  std::optional<Facts> facts = {};   // what the host has reported about itself; nullopt: the host could not be examined
  std::string error = {};            // why the host could not be examined
  bool shares_run_directory = false;
  std::vector<Contact> contacts = {};  // connections from this host to other hosts
  std::string contact_error = {};      // why the connections could not be tested
};

// The speed of the path between two hosts, given by their indexes; `from` opened the connection.
struct PairSpeed {
  size_t from = 0, to = 0;
  PathSpeed speed;
};

// What the command line requests.
struct Asked {
  // The command that starts processes on the hosts: "ssh", "mpirun", "srun"; empty: only this host is examined.
  std::string starter;
  bool job = false;  // whether the command line has flags of a job
  bool perf = false;
  bool resumes = false;       // whether the job continues from a run directory
  bool names_matter = false;  // whether the hosts must resolve each other's names, as some starters require
  int64_t workers = 1, servers = 0;
  int64_t launcher_open_files = 0;  // number of file descriptors that the launcher needs
  int64_t checkpoints = 0;          // the largest number of checkpoints on disk at one time
  bool allow_mixed_builds = false;
};

struct Examined {
  Asked asked;
  std::vector<HostReport> hosts;      // the launcher's host is the first
  std::vector<PairSpeed> pairs = {};  // the speeds between pairs of hosts, measured with --perf
};

struct Row {
  std::string check;
  Verdict verdict = Verdict::kPass;
  std::vector<std::string> hosts = {};  // the hosts to which the row applies; empty: the job as a whole
  std::string found;
  std::string remedy = {};  // what the user can do; empty unless the verdict is kWarn or kFail
  bool about_all = false;   // whether the row applies to all hosts that the check examined
};

// Returns all rows, in the order of the checks. A check gives one row if all hosts pass; otherwise it gives one row for
// each distinct finding, the worst first.
std::vector<Row> check_all(const Examined& examined);

// The individual checks, declared for tests.
std::vector<Row> check_reach(const Examined& examined);
std::vector<Row> check_build(const Examined& examined);
std::vector<Row> check_processor(const Examined& examined);
std::vector<Row> check_open_files(const Examined& examined);
std::vector<Row> check_shared_memory(const Examined& examined);
std::vector<Row> check_names(const Examined& examined);
std::vector<Row> check_interface(const Examined& examined);
std::vector<Row> check_ports(const Examined& examined);
std::vector<Row> check_clock(const Examined& examined);
std::vector<Row> check_gpus(const Examined& examined);
std::vector<Row> check_driver(const Examined& examined);
std::vector<Row> check_cuda(const Examined& examined);
std::vector<Row> check_nccl(const Examined& examined);
std::vector<Row> check_run_directory(const Examined& examined);
std::vector<Row> check_disk_space(const Examined& examined);
std::vector<Row> check_flags(const Examined& examined);
std::vector<Row> check_data_present(const Examined& examined);
std::vector<Row> check_data_equal(const Examined& examined);
std::vector<Row> check_memory(const Examined& examined);
std::vector<Row> check_latency(const Examined& examined);
std::vector<Row> check_bandwidth(const Examined& examined);
std::vector<Row> check_disk_speed(const Examined& examined);
std::vector<Row> check_decode_speed(const Examined& examined);

// How the user can make an unreachable host reachable, derived from the message of ssh or of the launcher (`words`).
std::string remedy_for_unreachable(std::string_view words, const std::string& host, const std::string& starter);

// The exit code: 3 if a host could not be examined, otherwise 1 if a check failed, otherwise 0.
int exit_code(const Examined& examined, const std::vector<Row>& rows);

}  // namespace dtrain::doctor
