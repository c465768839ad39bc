// TCP's congestion control on connections within one machine.
#pragma once

struct grpc_socket_mutator;

namespace dtrain::rpc {

// For ChannelArguments::SetSocketMutator, which takes it over. Sets `cubic` on sockets of loopback connections,
// whatever the kernel's default: bbr, made for paths with loss and delay, halves what loopback carries
// (toolchain.md 2.1, 2.2). On a server it looks at each accepted connection, so that connections from elsewhere keep
// the system's choice; on a client it is for channels whose peer is this machine. Null if this gRPC is not the release
// whose ABI is known here.
grpc_socket_mutator* loopback_mutator();

}  // namespace dtrain::rpc
