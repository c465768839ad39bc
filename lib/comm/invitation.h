// The data that the ranks of a group pass to each other before they connect (comm/exchange.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::comm {

using Secret = std::array<uint32_t, 4>;
Secret draw_secret();

// The message of one rank to all others: its rank, the size of the group, the secret with which its connections start,
// and the address of its socket for each other rank. Borrows the bytes from which it was parsed.
class Invitation {
 public:
  // The bytes that `rank` passes to the exchange. `addresses`: one for each other rank, in order of ranks.
  static std::string serialize(uint32_t rank, uint32_t size, const Secret& secret,
                               std::span<const std::vector<char>> addresses);
  // `rank`: the peer that passed the bytes. If all processes use the same build of gloo, all addresses have the length
  // `address_bytes`. Code::kStartup if the bytes are not an invitation of this rank.
  static Result<Invitation> parse(std::string_view bytes, uint32_t rank, uint32_t size, size_t address_bytes);

  [[nodiscard]] const Secret& secret() const { return secret_; }
  [[nodiscard]] std::vector<char> address_for(uint32_t peer) const;  // `peer` must be another rank

 private:
  Invitation(uint32_t rank, const Secret& secret, std::string_view addresses, size_t address_bytes)
      : rank_(rank), secret_(secret), addresses_(addresses), address_bytes_(address_bytes) {}

  uint32_t rank_;
  Secret secret_;
  std::string_view addresses_;
  size_t address_bytes_;
};

}  // namespace dtrain::comm
