#include "comm/invitation.h"

#include <cstring>
#include <random>

namespace dtrain::comm {
namespace {

// The header with which the bytes begin. The address follows it.
struct Head {
  std::array<char, 4> magic = {'D', 'T', 'G', '2'};
  uint32_t rank = 0;
  uint32_t size = 0;
  Secret secret = {};
};

}  // namespace

Secret draw_secret() {
  Secret secret = {};
  std::random_device random;
  for (uint32_t& word : secret) word = random();
  return secret;
}

std::string Invitation::serialize(uint32_t rank, uint32_t size, const Secret& secret, std::string_view address) {
  const Head head{.rank = rank, .size = size, .secret = secret};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes.append(address);
  return bytes;
}

Result<Invitation> Invitation::parse(std::string_view bytes, uint32_t rank, uint32_t size) {
  if (bytes.size() < sizeof(Head)) {
    return fail(Code::kStartup, "the address message of rank {} has {} bytes, fewer than {}", rank, bytes.size(),
                sizeof(Head));
  }
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != Head{}.magic || head.rank != rank || head.size != size) {
    return fail(Code::kStartup, "the address message of rank {} of {} is invalid", rank, size);
  }
  return Invitation(head.secret, bytes.substr(sizeof head));
}

}  // namespace dtrain::comm
