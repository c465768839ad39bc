// The baseline of `bench kv`: transfers bytes there and back by the usual unary calls with a protobuf `bytes` field and
// default options. Each array is one message, or several of `chunk_bytes` if it is larger, so that several are in
// flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "net/endpoint.h"

namespace dtrain::rpc {

// The server: holds `weight_bytes` of weights, zero at first.
class BaselineServer {
 public:
  static Result<std::unique_ptr<BaselineServer>> start(const net::Listen& listen, size_t weight_bytes);
  virtual ~BaselineServer() = default;
  [[nodiscard]] virtual uint16_t port() const = 0;
};

class BaselineClient {
 public:
  enum class Method {
    kEcho,    // returns the bytes as they were sent: measures the calls alone
    kUpdate,  // takes the arrays as gradients and returns the new weights, as push and pull do
  };

  static std::unique_ptr<BaselineClient> create(const net::Endpoint& server);
  virtual ~BaselineClient() = default;
  // Sends all arrays and receives the answers once, with at most `window` calls in flight, and returns the seconds that
  // it took. The answers are copied into `back`, which has the sizes of the arrays, as a worker that pulls does.
  virtual Result<double> exchange(Method method, std::span<const std::span<const std::byte>> arrays,
                                  std::span<const std::span<std::byte>> back, size_t chunk_bytes, int window) = 0;
};

}  // namespace dtrain::rpc
