// The congestion control of TCP on connections within one host.
#pragma once

struct grpc_socket_mutator;

namespace dtrain::rpc {

// Sets `cubic` on an accepted connection whose peer is this host. Some kernels use bbr by default, which is made for
// paths with loss and delay and halves the throughput of loopback.
void tune_loopback(int connection);

// Does the same for a channel to this host: an argument of ChannelArguments::SetSocketMutator, which takes ownership.
// Null if this release of gRPC is not the one whose ABI is known here.
grpc_socket_mutator* loopback_mutator();

}  // namespace dtrain::rpc
