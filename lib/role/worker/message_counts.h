// The metrics of the messages between a worker and its servers: sent_bytes and the like, by server.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvstore/wire/transport.h"
#include "telemetry/registry.h"

namespace dtrain::role {

// Stands between a worker's store and the transport: counts each message that the worker sends or receives, and passes
// it on.
class MessageCounts final : public kvstore::ClientEvents {
 public:
  // `store` and `registry` must outlive this object, and this object the transport that it is given to.
  MessageCounts(kvstore::ClientEvents& store, telemetry::Registry& registry, size_t servers);

  // The pipes that the store sends through, by server.
  [[nodiscard]] std::vector<std::shared_ptr<kvstore::Pipe>> wrap(
      std::span<const std::shared_ptr<kvstore::Pipe>> pipes) const;

  void on_message(uint32_t server, const kvstore::Head& head, kvstore::Pieces payload) override;
  void on_reconnected(uint32_t server) override { store_.on_reconnected(server); }

  // Of one server.
  struct Cells {
    telemetry::Cell& sent_bytes;
    telemetry::Cell& sent_messages;
    telemetry::Cell& received_bytes;
    telemetry::Cell& received_messages;
  };

 private:
  kvstore::ClientEvents& store_;
  std::vector<Cells> cells_;
};

}  // namespace dtrain::role
