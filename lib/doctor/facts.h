// The facts that `dtrain doctor` collects about a host, as plain data. They are gathered on that host (gather.h), sent
// to the launcher as one line of JSON, and judged by the checks (checks.h).
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
  std::string error = {};  // why the name could not be resolved; empty: it was
};

// A file that the job's flags name. For a small file, such as an index, the checksum covers the whole content; for a
// large file, only the beginning and the end.
struct DataFile {
  std::string path;
  int64_t bytes = 0;
  uint32_t checksum = 0;
  std::string error = {};
};

struct Processor {
  std::string name;
  int64_t cores = 0;
  std::vector<std::string> isa = {};  // the instruction sets of known_isa() that the processor supports
};

struct RunDirectory {
  std::string path;      // absolute path of the run directory
  std::string existing;  // the path itself if it exists, otherwise the nearest existing directory above it
  bool writable = false;
  std::string error = {};  // why the directory is not writable
  int64_t free_bytes = 0;
};

struct Gpus {
  bool asked = false;
  std::string error = {};  // why no GPU can be used
  // Descriptions, indexed by the number of the GPU; "" for a GPU that cannot be used.
  std::vector<std::string> found = {};
  int64_t count = 0;  // number of GPUs that exist
  // Versions, such as "13.0"; empty if unknown, or if the software is absent.
  std::string driver = {}, cuda = {}, nccl = {};
};

// The minimum memory in bytes that each process of the job and a checkpoint need; 0 if unknown.
struct MemoryNeeds {
  double worker = 0, server = 0, checkpoint = 0;
  std::string error = {};  // why the needs are unknown: the job's flags do not fit the host
};

struct Speeds {
  double disk_write = 0, disk_read = 0;  // speed of the disk in bytes/s; 0: not measured
  double decode = 0;                     // images/s that one worker decodes
  std::string disk_error = {}, decode_error = {};
};

struct Facts {
  std::string build_id, host_name;
  Processor processor;
  int64_t open_files = 0;                     // the limit on open files for processes of dtrain
  int64_t shm_bytes = 0, shm_free_bytes = 0;  // size of /dev/shm and the free part of it; 0: there is no /dev/shm
  double memory_bytes = 0, memory_free_bytes = 0;
  std::vector<ResolvedName> names = {};
  std::string address = {}, address_error = {};  // the address at which other hosts can reach this host
  int64_t port = 0;  // the port on which this host listens for the other hosts; 0: see listen_error
  std::string listen_error = {};
  RunDirectory run_directory;
  std::string flags_error = {};  // why the job's flags could not be read on this host
  Gpus gpus;
  MemoryNeeds needs;
  std::vector<DataFile> files = {};
  std::string data_error = {};  // why the data files could not be found
  Speeds speeds;
  double wall_s = 0;  // the time of this host's clock when the facts were sent, in seconds since 1970
};

// The result of connecting from a host to another host.
struct Contact {
  int64_t host = 0;  // index of the other host
  std::string error = {};
  double round_trip_s = 0;
  double clock_ahead_s = 0;  // how far the other host's clock is ahead of this host's clock
};

// The speed of the path between two hosts, in bytes/s.
struct PathSpeed {
  std::string error = {};
  double out = 0, back = 0;
};

// Convert to and from one line of JSON. parse_facts fails with Code::kData if the line is anything else.
std::string to_line(const Facts& facts);
Result<Facts> parse_facts(std::string_view line);
std::string to_line(const Contact& contact);
Result<Contact> parse_contact(std::string_view line);
std::string to_line(const PathSpeed& speed);
Result<PathSpeed> parse_path_speed(std::string_view line);

// Instruction sets that affect the speed, from the oldest to the newest; the names are those of /proc/cpuinfo.
const std::vector<std::string>& known_isa();
// The instruction sets that this build requires.
const std::vector<std::string>& needed_isa();

}  // namespace dtrain::doctor
