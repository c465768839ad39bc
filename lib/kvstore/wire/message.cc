#include "kvstore/wire/message.h"

#include <utility>

#include "base/crc32c.h"

namespace dtrain::kvstore {

SliceId slice_of(const Head& head) {
  if (const auto* header = std::get_if<Header>(&head)) return {header->key, header->slice};
  if (const auto* request = std::get_if<ControlRequest>(&head)) return request->id;
  return std::get<ControlAnswer>(head).id;
}

std::optional<Sender> sender_of(const Head& head) {
  if (const auto* request = std::get_if<ControlRequest>(&head)) return Sender{request->rank, request->incarnation};
  const auto* header = std::get_if<Header>(&head);
  if (header == nullptr || header->kind == Kind::kAnswer) return std::nullopt;
  return Sender{header->rank, header->incarnation};
}

Message make_message(Head head, std::span<const float> values, std::shared_ptr<const void> owner, bool checksum) {
  return make_message(std::move(head), values, std::move(owner), checksum ? crc32c(std::as_bytes(values)) : 0);
}

Message make_message(Head head, std::span<const float> values, std::shared_ptr<const void> owner, uint32_t checksum) {
  if (auto* header = std::get_if<Header>(&head)) header->element_count = static_cast<uint32_t>(values.size());
  std::visit([&](auto& any) { any.payload_crc = checksum; }, head);
  return {std::move(head), std::as_bytes(values), std::move(owner)};
}

bool payload_intact(uint32_t payload_crc, Pieces payload) {
  if (payload_crc == 0) return true;
  uint32_t crc = 0;
  for (const std::span<const std::byte> piece : payload) crc = crc32c(piece, crc);
  return crc == payload_crc;
}

}  // namespace dtrain::kvstore
