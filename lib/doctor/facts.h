// The facts that `dtrain doctor` collects about a host, as plain data: gathered there (gather.h), sent as one line of
// JSON, and judged by the checks (checks.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::doctor {

// The result of resolving a name on a host.
struct ResolvedName {
  std::string name;
  std::vector<std::string> addresses = {};
  std::string error = {};  // empty: it was resolved
};

// A file that the job's flags name. The checksum covers the whole file if it is small, like an index; for a large file
// it covers only the beginning and the end.
struct DataFile {
  std::string path;
  int64_t bytes = 0;
  uint32_t checksum = 0;
  std::string error = {};
};

struct Processor {
  std::string name;
  int64_t cores = 0;
  std::vector<std::string> isa = {};  // names from known_isa() that the processor has
};

struct RunDirectory {
  std::string path;      // absolute
  std::string existing;  // the nearest directory above it that exists, or the path itself
  bool writable = false;
  std::string error = {};  // why it is not writable
  int64_t free_bytes = 0;
};

struct Gpus {
  bool asked = false;
  std::string error = {};               // why none can be used
  std::vector<std::string> found = {};  // descriptions, indexed by number; "" for one that cannot be used
  int64_t count = 0;                    // number of GPUs that exist
  // "13.0"; empty if unknown or absent.
  std::string driver = {}, cuda = {}, nccl = {};
};

// The minimum memory of each of the job's processes; 0 if it is unknown.
struct MemoryNeeds {
  double worker = 0, server = 0, checkpoint = 0;
  std::string error = {};  // why it is unknown: the job's flags do not suit the host
};

struct Speeds {
  double disk_write = 0, disk_read = 0;  // bytes/s; 0: not measured
  double decode = 0;                     // images/s of one worker
  std::string disk_error = {}, decode_error = {};
};

struct Facts {
  std::string build_id, host_name;
  Processor processor;
  int64_t open_files = 0;                     // the limit for processes of dtrain
  int64_t shm_bytes = 0, shm_free_bytes = 0;  // 0: there is no /dev/shm
  double memory_bytes = 0, memory_free_bytes = 0;
  std::vector<ResolvedName> names = {};
  std::string address = {}, address_error = {};  // address at which other hosts reach it
  int64_t port = 0;                              // port of the socket that it listens on; 0: see listen_error
  std::string listen_error = {};
  RunDirectory run_directory;
  std::string flags_error = {};  // the job's flags cannot be read there
  Gpus gpus;
  MemoryNeeds needs;
  std::vector<DataFile> files = {};
  std::string data_error = {};  // the files cannot be found
  Speeds speeds;
  double wall_s = 0;  // the host's clock when the facts were sent, in seconds since 1970
};

// The result of one connection from a host to another.
struct Contact {
  int64_t host = 0;  // index of the other host
  std::string error = {};
  double round_trip_s = 0;
  double clock_ahead_s = 0;  // how far the other host's clock is ahead
};

// The speed of the path between two hosts, in bytes/s.
struct PathSpeed {
  std::string error = {};
  double out = 0, back = 0;
};

// Convert to and from one line of JSON; parsing fails with Code::kData for anything else.
std::string to_line(const Facts& facts);
Result<Facts> parse_facts(std::string_view line);
std::string to_line(const Contact& contact);
Result<Contact> parse_contact(std::string_view line);
std::string to_line(const PathSpeed& speed);
Result<PathSpeed> parse_path_speed(std::string_view line);

// Instruction sets that affect speed, from the oldest to the newest, with the names in /proc/cpuinfo.
const std::vector<std::string>& known_isa();
// The instruction sets that this build requires.
const std::vector<std::string>& needed_isa();

}  // namespace dtrain::doctor
