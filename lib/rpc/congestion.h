// TCP congestion control for connections within one host.
#pragma once

struct grpc_socket_mutator;

namespace dtrain::rpc {

// Sets the algorithm `cubic` on an accepted connection whose peer is this host. Some kernels use bbr by default, which
// is made for paths with loss and delay and halves the throughput on loopback.
void tune_loopback(int connection);

// Like tune_loopback, for the connections of a channel to this host. Pass the result to
// ChannelArguments::SetSocketMutator, which takes ownership. Null if the ABI of this gRPC release is not known here.
grpc_socket_mutator* loopback_mutator();

}  // namespace dtrain::rpc
