// CRC-32C (Castagnoli), as defined for iSCSI in RFC 3720: crc32c("123456789") = 0xe3069283.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtrain {

// Extends the checksum `crc` of the preceding bytes by `bytes`. If there are no preceding bytes, `crc` is 0.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace dtrain
