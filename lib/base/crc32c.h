// CRC-32C (Castagnoli), as iSCSI and RFC 3720 define it: crc32c("123456789") = 0xe3069283.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtrain {

// The checksum of `bytes` appended to what `crc` covers; start with 0.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace dtrain
