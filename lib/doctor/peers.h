// Connections between the hosts that `dtrain doctor` examines: each host listens, and every other host connects to it.
//
// The protocol is lines of text. A peer must first send "dtrain-doctor KEY" within a few seconds; other connections are
// closed. The requests are:
//   ping            answered by "pong TIME", the time of day in seconds since 1970
//   take BYTES      followed by this number of bytes; answered by "took"
//   give BYTES      answered by this number of bytes
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "doctor/facts.h"
#include "net/endpoint.h"
#include "net/listening_sockets.h"

namespace dtrain::doctor {

// Listens on the first free port of `where`. Code::kStartup.
Result<net::ListeningSockets> listen_at(const net::Listen& where);

// Serves peers that know the key for at most `lifetime`, which is longer than any examination, or until the descriptor
// `stop` becomes readable (-1: there is none). `log` receives refused connections.
void serve_peers(std::vector<UniqueFd> listeners, const std::string& key, std::chrono::milliseconds lifetime,
                 const Log& log, int stop = -1);

struct Target {
  int64_t host = 0;  // see Contact::host
  net::Endpoint endpoint;
};
// The text form is "3=10.0.0.1:4000,4=[fe80::1]:4000".
std::string to_text(const std::vector<Target>& targets);
Result<std::vector<Target>> parse_targets(std::string_view text);  // Code::kUsage

// Connects to all targets at the same time, and measures round trips and clocks. Each wait takes at most `limit`.
std::vector<Contact> contact_all(const std::vector<Target>& targets, const std::string& key,
                                 std::chrono::milliseconds limit);

// Measures sending for about this time, and then receiving.
PathSpeed measure_path(const net::Endpoint& peer, const std::string& key, std::chrono::milliseconds time);

// The time of day in seconds since 1970.
double wall_clock_s();

}  // namespace dtrain::doctor
