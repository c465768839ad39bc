// What runs on each host that `dtrain doctor` examines: the internal command `dtrain examine-host`. examine()
// (examination.h) starts this command and reads the lines that it prints.
#pragma once

#include <string>

#include "base/error.h"
#include "job/flags/flags.h"

namespace dtrain::doctor {

// The environment variable that holds the key with which the hosts authenticate to each other.
inline constexpr const char* kDoctorKey = "DTRAIN_DOCTOR_KEY";
// The first words of the lines that the command prints.
inline constexpr std::string_view kFactsLine = "facts ";
inline constexpr std::string_view kContactLine = "contact ";
inline constexpr std::string_view kContactsEnd = "contacts done";
inline constexpr std::string_view kSpeedLine = "speed ";

struct HostSide {
  std::string key;
  std::string launcher;  // the launcher's address; used if the host cannot read the job's flags
  std::string names;     // names to resolve, separated by commas
  bool perf = false;     // whether to measure the disk and the decoders
};

// Prints the facts of this host, then serves the other hosts until the process is ended. `flags`: the flags of a
// process of the job on this host, or the Error of reading them.
Result<> tell_facts(const HostSide& side, const Result<job::Flags>& flags);

// Connects to the targets (see peers.h) and prints the results.
Result<> tell_contacts(const HostSide& side, const std::string& targets);

// Prints the speed of the path to HOST:PORT.
Result<> tell_speed(const HostSide& side, const std::string& peer);

}  // namespace dtrain::doctor
