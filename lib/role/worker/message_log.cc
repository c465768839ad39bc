#include "role/worker/message_log.h"

#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace dtrain::role {
namespace {

using kvstore::Header;
using kvstore::SliceId;
using kvstore::Status;

const char* name_of(kvstore::Kind kind) {
  switch (kind) {
    case kvstore::Kind::kPush: return "push";
    case kvstore::Kind::kPull: return "pull";
    case kvstore::Kind::kRefresh: return "refresh";
    case kvstore::Kind::kAnswer: break;
  }
  return "answer to";
}

const char* name_of(const kvstore::ControlRequest& request) {
  return std::visit(Overloaded{[](const kvstore::AssignState&) { return "assign-state"; },
                               [](const kvstore::AssignValues&) { return "assign-values"; },
                               [](const kvstore::Regroup&) { return "regroup"; },
                               [](const kvstore::PullState&) { return "pull-state"; },
                               [](const kvstore::PullCounters&) { return "pull-counters"; },
                               [](const kvstore::SetRate&) { return "set-rate"; }},
                    request.what);
}

std::string format(const char* what, uint64_t request, const SliceId& id) {
  return fmt::format("{} {} of key {}, slice {}", what, request, id.key, id.slice);
}

std::string status_suffix(Status status) {
  return status == Status::kOk ? "" : fmt::format(", status {}", static_cast<int>(status));
}

class LoggedPipe final : public kvstore::Pipe {
 public:
  LoggedPipe(std::shared_ptr<kvstore::Pipe> next, uint32_t server, Log log)
      : next_(std::move(next)), server_(server), log_(std::move(log)) {}

  void send(kvstore::Message message) override {
    log_.verbose(2, "sends server {} {}", server_, describe(message.head, message.payload.size()));
    next_->send(std::move(message));
  }
  bool needs_checksums() const override { return next_->needs_checksums(); }

 private:
  const std::shared_ptr<kvstore::Pipe> next_;
  const uint32_t server_;
  const Log log_;
};

}  // namespace

std::string describe(const kvstore::Head& head, size_t payload_bytes) {
  std::string text = std::visit(
      Overloaded{
          [](const Header& header) {
            return format(name_of(header.kind), header.request, {header.key, header.slice}) +
                   fmt::format(": step {}", header.step) + status_suffix(header.status);
          },
          [](const kvstore::ControlRequest& request) { return format(name_of(request), request.request, request.id); },
          [](const kvstore::ControlAnswer& answer) {
            return format("answer to", answer.request, answer.id) + status_suffix(answer.status);
          }},
      head);
  return payload_bytes == 0 ? text : fmt::format("{}, {} bytes", text, payload_bytes);
}

std::vector<std::shared_ptr<kvstore::Pipe>> MessageLog::wrap(
    std::span<const std::shared_ptr<kvstore::Pipe>> pipes) const {
  std::vector<std::shared_ptr<kvstore::Pipe>> wrapped;
  for (const std::shared_ptr<kvstore::Pipe>& pipe : pipes) {
    wrapped.push_back(std::make_shared<LoggedPipe>(pipe, static_cast<uint32_t>(wrapped.size()), log_));
  }
  return wrapped;
}

void MessageLog::on_message(uint32_t server, const kvstore::Head& head, kvstore::Pieces payload) {
  log_.verbose(2, "receives from server {} {}", server, describe(head, kvstore::byte_count(payload)));
  store_.on_message(server, head, payload);
}

void MessageLog::on_reconnected(uint32_t server) {
  log_.verbose(2, "server {} is connected again", server);
  store_.on_reconnected(server);
}

}  // namespace dtrain::role
