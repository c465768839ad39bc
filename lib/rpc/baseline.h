// What `bench kv` compares with: bytes there and back by the usual unary call with a protobuf `bytes` field, default
// options, one message an array (cut where it is larger than `chunk_bytes`, so that several are on their way).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "rpc/endpoint.h"

namespace dtrain::rpc {

// The called side: holds `weight_bytes` of weights, zero at first.
class BaselineServer {
 public:
  static Result<std::unique_ptr<BaselineServer>> start(const Listen& listen, size_t weight_bytes);
  virtual ~BaselineServer() = default;
  [[nodiscard]] virtual uint16_t port() const = 0;
};

class BaselineClient {
 public:
  enum class Method {
    kEcho,    // what comes back is what went: the calls alone
    kUpdate,  // the arrays are gradients, one after the other; the new weights come back: what push and pull do
  };

  static std::unique_ptr<BaselineClient> create(const Endpoint& server);
  virtual ~BaselineClient() = default;
  // All arrays there and back once, `window` calls on their way at most: seconds. The answers are copied into `back`,
  // which has the arrays' sizes; as a worker that pulls does.
  virtual Result<double> exchange(Method method, std::span<const std::span<const std::byte>> arrays,
                                  std::span<const std::span<std::byte>> back, size_t chunk_bytes, int window) = 0;
};

}  // namespace dtrain::rpc
