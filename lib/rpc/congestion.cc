#include "rpc/congestion.h"

#include <grpc/support/sync.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <string_view>

// gRPC exports the function that initializes a mutator, but not its types. This is their layout in gRPC 1.51, the
// release in Debian 12.
struct grpc_mutate_socket_info {
  int fd;
  int usage;
};
struct grpc_socket_mutator_vtable {
  bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  bool (*mutate_fd_2)(const grpc_mutate_socket_info* info, grpc_socket_mutator* mutator);
};
struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount refcount;
};
// Declared with C++ linkage, because libgrpc exports it with a C++ name.
void grpc_socket_mutator_init(grpc_socket_mutator* mutator, const grpc_socket_mutator_vtable* vtable);

namespace dtrain::rpc {
namespace {

constexpr std::string_view kKnownRelease = "1.51.";
constexpr int kClientConnection = 0;

// Whether both ends have the same address, so that packets never leave the host.
bool is_within_host(int fd) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof(own);
  socklen_t peer_length = sizeof(peer);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) return false;
  if (own.ss_family != peer.ss_family) return false;
  if (own.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in&>(own).sin_addr.s_addr == reinterpret_cast<sockaddr_in&>(peer).sin_addr.s_addr;
  }
  return own.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<sockaddr_in6&>(own).sin6_addr, &reinterpret_cast<sockaddr_in6&>(peer).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

// A kernel without cubic keeps its default algorithm, which is only slower.
void set_cubic(int fd) {
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

bool mutate(const grpc_mutate_socket_info* info, grpc_socket_mutator*) {
  if (info->usage == kClientConnection) set_cubic(info->fd);
  return true;
}

int compare(grpc_socket_mutator* a, grpc_socket_mutator* b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

void destroy(grpc_socket_mutator* mutator) {
  delete mutator;
}

constexpr grpc_socket_mutator_vtable kVtable = {nullptr, compare, destroy, mutate};

}  // namespace

void tune_loopback(int connection) {
  if (is_within_host(connection)) set_cubic(connection);
}

grpc_socket_mutator* loopback_mutator() {
  if (!grpc::Version().starts_with(kKnownRelease)) return nullptr;
  auto* mutator = new grpc_socket_mutator;
  grpc_socket_mutator_init(mutator, &kVtable);
  return mutator;
}

}  // namespace dtrain::rpc
