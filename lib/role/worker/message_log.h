// --verbose 2: the log of the messages between a worker and its servers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "kvstore/wire/transport.h"

namespace dtrain::role {

// Example: "push 17 of key 3, slice 0: step 5, 1048576 bytes".
std::string describe(const kvstore::Head& head, size_t payload_bytes);

// A layer between a worker's store and the transport: logs each message that the worker sends or receives, and passes
// it on.
class MessageLog final : public kvstore::ClientEvents {
 public:
  // `store` must outlive this object, and this object must outlive the transport that it is given to.
  MessageLog(kvstore::ClientEvents& store, Log log) : store_(store), log_(std::move(log)) {}

  // The pipes through which the store must send, indexed by server.
  [[nodiscard]] std::vector<std::shared_ptr<kvstore::Pipe>> wrap(
      std::span<const std::shared_ptr<kvstore::Pipe>> pipes) const;

  void on_message(uint32_t server, const kvstore::Head& head, kvstore::Pieces payload) override;
  void on_reconnected(uint32_t server) override;

 private:
  kvstore::ClientEvents& store_;
  const Log log_;
};

}  // namespace dtrain::role
