// TCP's congestion control on connections within one machine.
#pragma once

struct grpc_socket_mutator;

namespace dtrain::rpc {

// Sets `cubic` on an accepted connection whose peer is this machine, whatever the kernel's default: bbr, made for paths
// with loss and delay, halves what loopback carries.
void tune_loopback(int connection);

// The same on the caller's side, for channels whose peer is this machine: for ChannelArguments::SetSocketMutator, which
// takes it over. Null if this gRPC is not the release whose ABI is known here.
grpc_socket_mutator* loopback_mutator();

}  // namespace dtrain::rpc
