// The checks of `dtrain doctor`: pure functions from the facts about the hosts to the rows of its table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace dtrain::doctor {

enum class Verdict { kSkip, kPass, kWarn, kFail };  // from best to worst; kSkip: not requested, or not possible
std::string_view word_of(Verdict verdict);          // "pass"

// One of the examined hosts.
struct HostReport {
  std::string name;  // as in the host file, or "this host"
  bool is_launcher = false;
  bool is_here = false;              // the launcher's host, or another name of it: "localhost"
  int64_t workers = 0, servers = 0;  // processes of the job on this host
  int64_t gpus = 0;                  // number of GPUs that these workers use; 0: none
  bool has_first_worker = false;     // it runs worker 0, which writes the checkpoints
  std::optional<Facts> facts = {};   // nullopt: the host could not be examined
  std::string error = {};            // why it could not be examined
  bool shares_run_directory = false;
  std::vector<Contact> contacts = {};  // its connections to others
  std::string contact_error = {};      // why there are no contacts
};

// The speed of the path between two hosts, given by index; the first one opened the connection.
struct PairSpeed {
  size_t from = 0, to = 0;
  PathSpeed speed;
};

// What the flags request.
struct Asked {
  std::string starter;  // how hosts are reached: "ssh", "mpirun", "srun"; empty: only this host is examined
  bool job = false;     // flags of a job were given
  bool perf = false;
  bool resumes = false;       // the job continues from a run directory
  bool names_matter = false;  // the starter resolves host names on the hosts
  int64_t workers = 1, servers = 0;
  int64_t launcher_open_files = 0;  // descriptors that the launcher needs
  int64_t checkpoints = 0;          // the largest number that are on disk at one time
  bool allow_mixed_builds = false;
};

struct Examined {
  Asked asked;
  std::vector<HostReport> hosts;      // this host first
  std::vector<PairSpeed> pairs = {};  // with --perf
};

struct Row {
  std::string check;
  Verdict verdict = Verdict::kPass;
  std::vector<std::string> hosts = {};  // the hosts that the row is about; empty: the job as a whole
  std::string found;
  std::string remedy = {};  // empty unless kWarn or kFail
  bool about_all = false;   // the row is about all hosts that the check examined
};

// All rows, in the order of the checks. A check has one row if all hosts pass; otherwise it has one row for each
// different finding, the worst first.
std::vector<Row> check_all(const Examined& examined);

// The checks one by one, for tests.
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

// How the user can fix a host that could not be reached, derived from the message of ssh or of the launcher.
std::string remedy_for_unreachable(std::string_view words, const std::string& host, const std::string& starter);

// The exit code: 3 if a host could not be examined, otherwise 1 if a check failed, otherwise 0.
int exit_code(const Examined& examined, const std::vector<Row>& rows);

}  // namespace dtrain::doctor
