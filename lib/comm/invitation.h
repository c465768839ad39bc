// The data that the ranks of a group pass to each other before they connect (comm/exchange.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::comm {

using Secret = std::array<uint32_t, 4>;
Secret draw_secret();

// The message of one rank to another one: its rank, the size of the group, the secret with which its connections start,
// and the address of its socket for the other rank. Borrows the bytes from which it was parsed.
class Invitation {
 public:
  // The bytes that `rank` passes to the exchange.
  static std::string serialize(uint32_t rank, uint32_t size, const Secret& secret, std::string_view address);
  // `rank`: the peer that passed the bytes. Code::kStartup if the bytes are not an invitation of this rank.
  static Result<Invitation> parse(std::string_view bytes, uint32_t rank, uint32_t size);

  [[nodiscard]] const Secret& secret() const { return secret_; }
  [[nodiscard]] std::string_view address() const { return address_; }

 private:
  Invitation(const Secret& secret, std::string_view address) : secret_(secret), address_(address) {}

  Secret secret_;
  std::string_view address_;
};

}  // namespace dtrain::comm
