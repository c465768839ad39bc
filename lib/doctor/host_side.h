// What runs on each host that `dtrain doctor` examines: `dtrain examine-host`, which is not for users. It is started by
// examine() (examination.h) and prints lines that this reads.
#pragma once

#include <string>

#include "base/error.h"
#include "job/flags/flags.h"

namespace dtrain::doctor {

// The variable that has the key by which the hosts know each other.
inline constexpr const char* kDoctorKey = "DTRAIN_DOCTOR_KEY";
// The beginnings of the lines that are printed.
inline constexpr std::string_view kFactsLine = "facts ";
inline constexpr std::string_view kContactLine = "contact ";
inline constexpr std::string_view kContactsEnd = "contacts done";
inline constexpr std::string_view kSpeedLine = "speed ";

struct HostSide {
  std::string key;
  std::string launcher;  // the address of the host that asks, for a host whose flags cannot be read
  std::string names;     // to resolve, separated by commas
  bool perf = false;     // measure the disk and the decoders
};

// Prints the facts of this host, and serves the other hosts until it is ended. `flags`: those of a process of the job
// here; an Error if they cannot be read.
Result<> tell_facts(const HostSide& side, const Result<job::Flags>& flags);

// Connects to the targets (peers.h) and prints the results.
Result<> tell_contacts(const HostSide& side, const std::string& targets);

// Prints the speed of the path to HOST:PORT.
Result<> tell_speed(const HostSide& side, const std::string& peer);

}  // namespace dtrain::doctor
