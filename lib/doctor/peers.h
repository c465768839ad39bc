// Connections between the hosts that `dtrain doctor` examines: each host listens, and every other host connects to it.
//
// The protocol consists of lines of text. After connecting, a peer must send "dtrain-doctor KEY" within a few seconds;
// otherwise its connection is closed. It may then send these requests:
//   ping            answered by "pong TIME", the time of day in seconds since 1970
//   take BYTES      followed by that number of bytes; answered by "took"
//   give BYTES      answered by that number of bytes
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

// Listens on the first free port of `where`. Code::kStartup if that is not possible.
Result<net::ListeningSockets> listen_at(const net::Listen& where);

// Serves peers that know the key, until the descriptor `stop` becomes readable (-1: there is no such descriptor), but
// at most for `lifetime`, which should be longer than any examination. Refused connections are logged to `log`.
void serve_peers(std::vector<UniqueFd> listeners, const std::string& key, std::chrono::milliseconds lifetime,
                 const Log& log, int stop = -1);

struct Target {
  int64_t host = 0;  // number of the host to connect to, as in Contact
  net::Endpoint endpoint;
};
// Convert to and from text of the form "3=10.0.0.1:4000,4=[fe80::1]:4000", with the number of the host before its
// address.
std::string to_text(const std::vector<Target>& targets);
// The inverse of to_text. Code::kUsage: the text does not have that form.
Result<std::vector<Target>> parse_targets(std::string_view text);

// Connects to all targets at the same time, and measures the round trip time and the difference of the clocks. No wait
// takes longer than `limit`.
std::vector<Contact> contact_all(const std::vector<Target>& targets, const std::string& key,
                                 std::chrono::milliseconds limit);

// Measures the speed of sending and then that of receiving, each for about `time`.
PathSpeed measure_path(const net::Endpoint& peer, const std::string& key, std::chrono::milliseconds time);

// The time of day in seconds since 1970.
double wall_clock_s();

}  // namespace dtrain::doctor
