// A group of processes over gloo's TCP transport (Debian's libgloo 0.5).
//
// It uses only gloo's messages between pairs of ranks, not its algorithms: a wait inside those cannot be interrupted
// and does not say which rank it waits for, and messages of different lengths abort the process. Here an operation
// consists of one or two exchanges, in which every rank sends a part to every other rank. That is the same traffic as
// in a ring, in 2 steps instead of 2 (size - 1).
//
// Sums are computed over ranks 0, 1, ... size-1, from left to right, as in shared_memory.h. The result is the same for
// all operations, bit for bit. The values are float32 in native byte order.
//
// Memory: up to 8 MiB per rank, allocated by the first sums, and the memory that gloo allocates per message. The group
// runs two additional threads.
//
// After any of these errors the group is unusable, and its connections are closed so that all other ranks learn of it:
// - Code::kPeerLost names the ranks that were silent for the time limit, or that closed their connection while
//   something was needed from them (the process ended, or its group was destroyed or canceled). A closed connection is
//   noticed at once, even in the middle of a message.
// - After cancel, the error is the one that was given to it. A waiting operation returns at once: cancel wakes the
//   waiting thread and resets the connections.
// - Ranks that call different operations, or with different lengths or roots, do not receive each other's messages:
//   Code::kPeerLost after the time limit.
//
// An operation on zero elements does nothing and is not a barrier.
//
// Security: gloo listens on ports of `listen_ip` while the group forms. Nothing is encrypted. A connection is accepted
// only if it presents the secret that its rank passed through the exchange. However, a stranger on the network who
// connects first can prevent the group from forming. The process must ignore SIGPIPE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/collective.h"
#include "comm/exchange.h"

namespace dtrain::comm {

struct GlooOptions {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::string listen_ip = "127.0.0.1";  // this host's address, as the other ranks see it; an IP address, not a name
  double connect_limit_s = 300;         // time limit for the connection to each other rank
  double wait_limit_s = 300;            // time limit for each message from another rank
  // A connection over which the other rank's host has acknowledged nothing for this time counts as closed. 0: the
  // system's limits apply, about a quarter of an hour. A process that is suspended or computes does not count as
  // silent.
  double silence_limit_s = 0;
  std::function<void(uint32_t rank)> on_unreached = {};  // called for a rank that does not connect; may be null
};

// Blocks until this rank is connected to all others. Calls `exchange` once, or not at all if size is 1. Errors: those
// of `exchange`; Code::kStartup if this host does not have the address, if the exchange returns bytes that are not a
// rank's, or if a stranger connects; Code::kPeerLost if a rank does not connect.
Result<std::unique_ptr<Collective>> make_gloo_group(const GlooOptions& options, const PairExchange& exchange);

}  // namespace dtrain::comm
