#include "comm/invitation.h"

#include <cstring>
#include <random>

namespace dtrain::comm {
namespace {

// The header with which the bytes begin. The addresses follow it.
struct Head {
  std::array<char, 4> magic = {'D', 'T', 'G', '1'};
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

std::string Invitation::serialize(uint32_t rank, uint32_t size, const Secret& secret,
                                  std::span<const std::vector<char>> addresses) {
  const Head head{.rank = rank, .size = size, .secret = secret};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  for (const std::vector<char>& address : addresses) bytes.append(address.begin(), address.end());
  return bytes;
}

Result<Invitation> Invitation::parse(std::string_view bytes, uint32_t rank, uint32_t size, size_t address_bytes) {
  const size_t expected_bytes = sizeof(Head) + (size - 1) * address_bytes;
  if (bytes.size() != expected_bytes) {
    return fail(Code::kStartup,
                "the address message of rank {} has {} bytes instead of {}; use the same build of dtrain on all hosts",
                rank, bytes.size(), expected_bytes);
  }
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != Head{}.magic || head.rank != rank || head.size != size) {
    return fail(Code::kStartup, "the address message of rank {} of {} is invalid", rank, size);
  }
  return Invitation(rank, head.secret, bytes.substr(sizeof head), address_bytes);
}

std::vector<char> Invitation::address_for(uint32_t peer) const {
  const size_t index = peer < rank_ ? peer : peer - 1;  // a rank has no address for itself
  const char* begin = addresses_.data() + index * address_bytes_;
  return {begin, begin + address_bytes_};
}

}  // namespace dtrain::comm
