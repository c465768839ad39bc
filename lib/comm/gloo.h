// A group of processes over gloo's TCP transport (Debian's libgloo 0.5). distributed.md 1.2, R-S2.
//
// Only gloo's messages between pairs are used, not its algorithms: a wait inside those cannot be broken off, does not
// say for whom it waits, and messages of different lengths end the process. An operation here is one or two exchanges
// in which every rank sends a part to every other: for the same traffic as a ring, in 2 steps instead of 2 (size - 1).
//
// Sums are taken over ranks 0, 1, ... size-1, left to right, as in shared_memory.h: equal bits whichever operation
// makes them. (R-S4 leaves the order to gloo; this is the order that costs nothing.) float32, native byte order.
//
// Memory: up to 8 MiB for each rank, taken by the first sums, and what gloo takes for each message. Two more threads.
//
// Errors, after which the group is of no further use; the connections are closed, so that all others hear of it:
// - A rank is silent for the limit, or has closed its connection while something of it is needed (its process ended,
//   its group was destroyed or broken off): Code::kPeerLost names the ranks. A closed connection is noticed at once,
//   also in the middle of a message.
// - cancel: what it was given, and the waiting operation returns at once. (It wakes the waiting thread and resets the
//   connections.)
// - Ranks that call different operations, lengths or roots do not hear each other: Code::kPeerLost after the limit.
// An operation without elements does nothing, and is no barrier.
//
// Who may connect: gloo listens on ports of `listen_ip` while the group comes together. Nothing is encrypted. Each
// connection is taken only if it brings the secret which its rank has given to the exchange; but a stranger on the
// network that connects first can keep the group from coming together. The process must ignore SIGPIPE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/collective.h"
#include "comm/exchange.h"

namespace dtrain::comm {

struct GlooOptions {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::string listen_ip = "127.0.0.1";  // of this machine, as the others reach it; an address, not a name
  double connect_limit_s = 300;         // for each other rank to connect
  double wait_limit_s = 300;            // for each message of another rank
};

// Blocks until this rank is connected with all others. `exchange` is called once, not at all with size 1. Besides its
// errors: Code::kStartup: no such address on this machine, bytes that are no rank's, a stranger; Code::kPeerLost: a
// rank does not connect.
Result<std::unique_ptr<Collective>> make_gloo_group(const GlooOptions& options, const Exchange& exchange);

}  // namespace dtrain::comm
