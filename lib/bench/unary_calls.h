// The baseline of `bench kv`: gradients are sent and new weights received with ordinary unary gRPC calls, with a
// protobuf `bytes` field and default options. Each array is one message, or several of `chunk_bytes` if it is larger,
// so that several are in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "net/endpoint.h"

namespace dtrain::bench {

// The server: holds `weight_bytes` of weights, zero at first.
class UnaryServer {
 public:
  static Result<std::unique_ptr<UnaryServer>> start(const net::Listen& listen, size_t weight_bytes);
  virtual ~UnaryServer() = default;
  [[nodiscard]] virtual uint16_t port() const = 0;
};

class UnaryClient {
 public:
  static std::unique_ptr<UnaryClient> create(const net::Endpoint& server);
  virtual ~UnaryClient() = default;
  // Sends all arrays as gradients and receives the new weights once, with at most `window` calls in flight. Returns the
  // seconds that it took. The answers are copied into `back`, which has the sizes of the arrays, like in a worker that
  // pulls.
  virtual Result<double> exchange(std::span<const std::span<const std::byte>> arrays,
                                  std::span<const std::span<std::byte>> back, size_t chunk_bytes, int window) = 0;
};

}  // namespace dtrain::bench
