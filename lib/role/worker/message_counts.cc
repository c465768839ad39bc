#include "role/worker/message_counts.h"

#include <fmt/format.h>

#include <utility>

namespace dtrain::role {
namespace {

using telemetry::Metric;

class CountedPipe final : public kvstore::Pipe {
 public:
  CountedPipe(std::shared_ptr<kvstore::Pipe> next, MessageCounts::Cells cells)
      : next_(std::move(next)), cells_(cells) {}

  void send(kvstore::Message message) override {
    cells_.sent_bytes.add(static_cast<double>(message.payload.size()));
    cells_.sent_messages.add(1);
    next_->send(std::move(message));
  }
  bool needs_checksums() const override { return next_->needs_checksums(); }

 private:
  const std::shared_ptr<kvstore::Pipe> next_;
  const MessageCounts::Cells cells_;
};

}  // namespace

MessageCounts::MessageCounts(kvstore::ClientEvents& store, telemetry::Registry& registry, size_t servers)
    : store_(store) {
  for (size_t server = 0; server < servers; server++) {
    const std::string peer = fmt::format("server {}", server);
    cells_.push_back({registry.cell(Metric::kSentBytes, peer), registry.cell(Metric::kSentMessages, peer),
                      registry.cell(Metric::kReceivedBytes, peer), registry.cell(Metric::kReceivedMessages, peer)});
  }
}

std::vector<std::shared_ptr<kvstore::Pipe>> MessageCounts::wrap(
    std::span<const std::shared_ptr<kvstore::Pipe>> pipes) const {
  std::vector<std::shared_ptr<kvstore::Pipe>> wrapped;
  for (const std::shared_ptr<kvstore::Pipe>& pipe : pipes) {
    wrapped.push_back(std::make_shared<CountedPipe>(pipe, cells_.at(wrapped.size())));
  }
  return wrapped;
}

void MessageCounts::on_message(uint32_t server, const kvstore::Head& head, kvstore::Pieces payload) {
  const Cells& cells = cells_.at(server);
  cells.received_bytes.add(static_cast<double>(kvstore::byte_count(payload)));
  cells.received_messages.add(1);
  store_.on_message(server, head, payload);
}

}  // namespace dtrain::role
