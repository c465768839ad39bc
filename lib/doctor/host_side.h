// Runs on each host that `dtrain doctor` examines: `dtrain examine-host`, an internal command. examine()
// (examination.h) starts it and reads the lines that it prints.
#pragma once

#include <string>

#include "base/error.h"
#include "job/flags/flags.h"

namespace dtrain::doctor {

// The environment variable with the key that authenticates the hosts to each other.
inline constexpr const char* kDoctorKey = "DTRAIN_DOCTOR_KEY";
// The beginnings of the printed lines.
inline constexpr std::string_view kFactsLine = "facts ";
inline constexpr std::string_view kContactLine = "contact ";
inline constexpr std::string_view kContactsEnd = "contacts done";
inline constexpr std::string_view kSpeedLine = "speed ";

struct HostSide {
  std::string key;
  std::string launcher;  // the launcher's address, for a host whose flags cannot be read
  std::string names;     // names to resolve, separated by commas
  bool perf = false;     // measure the disk and the decoders
};

// Prints the facts of this host, and serves the other hosts until it is ended. `flags`: those of a process of the job
// on this host; an Error if they cannot be read.
Result<> tell_facts(const HostSide& side, const Result<job::Flags>& flags);

// Connects to the targets (peers.h) and prints the results.
Result<> tell_contacts(const HostSide& side, const std::string& targets);

// Prints the speed of the path to HOST:PORT.
Result<> tell_speed(const HostSide& side, const std::string& peer);

}  // namespace dtrain::doctor
