// The baseline of `bench kv`: ordinary unary gRPC calls, with a protobuf `bytes` field and default options, send the
// gradients and receive the new weights. An array is sent as one message, or as several of `chunk_bytes` bytes each if
// it is larger; several messages may be in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "net/endpoint.h"

namespace dtrain::bench {

// The server, which holds `weight_bytes` bytes of weights, initially zero.
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
  // Sends all arrays as gradients and receives the new weights, once, with at most `window` calls in flight. Returns
  // the duration in seconds. The new weights are copied to `back`, which has arrays of the same sizes, as in a worker
  // that pulls.
  virtual Result<double> exchange(std::span<const std::span<const std::byte>> arrays,
                                  std::span<const std::span<std::byte>> back, size_t chunk_bytes, int window) = 0;
};

}  // namespace dtrain::bench
