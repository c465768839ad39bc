// What `dtrain doctor` finds out on a host, as plain data: gathered there (gather.h), sent as one line of JSON, and
// judged by the checks (checks.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::doctor {

// What a host resolves a name to.
struct ResolvedName {
  std::string name;
  std::vector<std::string> addresses = {};
  std::string error = {};  // empty: it was resolved
};

// A file that the job's flags name. The checksum covers the whole file if it is small, as indexes are; of a large file
// it covers the beginning and the end.
struct DataFile {
  std::string path;
  int64_t bytes = 0;
  uint32_t checksum = 0;
  std::string error = {};
};

struct Processor {
  std::string name;
  int64_t cores = 0;
  std::vector<std::string> isa = {};  // those of known_isa() that it has
};

struct RunDirectory {
  std::string path;      // absolute
  std::string existing;  // the nearest directory above it that exists, or itself
  bool writable = false;
  std::string error = {};  // why it is not writable
  int64_t free_bytes = 0;
};

struct Gpus {
  bool asked = false;
  std::string error = {};               // why none can be used
  std::vector<std::string> found = {};  // by number; "" for one that cannot be used
  int64_t count = 0;                    // how many there are
  // "13.0"; empty if unknown or absent.
  std::string driver = {}, cuda = {}, nccl = {};
};

// The memory that the job's processes take at least, each of them; 0 if it is unknown.
struct MemoryNeeds {
  double worker = 0, server = 0, checkpoint = 0;
  std::string error = {};  // why it is unknown: the job's flags do not go together with what is on the host
};

struct Speeds {
  double disk_write = 0, disk_read = 0;  // bytes/s; 0: not measured
  double decode = 0;                     // images/s of one worker
  std::string disk_error = {}, decode_error = {};
};

struct Facts {
  std::string build_id, host_name;
  Processor processor;
  int64_t open_files = 0;                     // the limit that processes of dtrain get
  int64_t shm_bytes = 0, shm_free_bytes = 0;  // 0: there is no /dev/shm
  double memory_bytes = 0, memory_free_bytes = 0;
  std::vector<ResolvedName> names = {};
  std::string address = {}, address_error = {};  // where other hosts reach it
  int64_t port = 0;                              // of the socket that it listens on; 0: see listen_error
  std::string listen_error = {};
  RunDirectory run_directory;
  std::string flags_error = {};  // the job's flags cannot be read there
  Gpus gpus;
  MemoryNeeds needs;
  std::vector<DataFile> files = {};
  std::string data_error = {};  // the files cannot be found
  Speeds speeds;
  double wall_s = 0;  // the time of day there when the facts were sent, in seconds since 1970
};

// The result of one connection from a host to another.
struct Contact {
  int64_t host = 0;  // index of the other one
  std::string error = {};
  double round_trip_s = 0;
  double clock_ahead_s = 0;  // of the other one's clock
};

// The speed of the path between two hosts, in bytes/s.
struct PathSpeed {
  std::string error = {};
  double out = 0, back = 0;
};

// One line of JSON each; parsing gives Code::kData for anything else.
std::string to_line(const Facts& facts);
Result<Facts> parse_facts(std::string_view line);
std::string to_line(const Contact& contact);
Result<Contact> parse_contact(std::string_view line);
std::string to_line(const PathSpeed& speed);
Result<PathSpeed> parse_path_speed(std::string_view line);

// Instruction sets that matter for speed, from the oldest to the newest, by the names of /proc/cpuinfo.
const std::vector<std::string>& known_isa();
// Those without which this build does not run.
const std::vector<std::string>& needed_isa();

}  // namespace dtrain::doctor
