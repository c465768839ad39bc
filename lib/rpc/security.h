// What a peer must prove: the job's token, the build id, the protocol version, and certificates. Checked on every call
// and every stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace dtrain::rpc {

// Changes when a message or its meaning does (proto/, kvstore/wire).
inline constexpr uint32_t kProtocolVersion = 5;

// PEM texts. Both sides show a certificate, and accept one that the authority has signed.
struct Tls {
  std::string certificate;
  std::string key;
  std::string authority;
};
// From --tls-cert, --tls-key, --tls-ca: all three, or Code::kUsage; kNotFound if a file is not there. Whether the
// certificates can be used, certificates.h tells.
Result<Tls> read_tls(const std::string& certificate_file, const std::string& key_file,
                     const std::string& authority_file);

// The same on all sides of a job. Whether it may do without a token is the caller's decision.
struct Security {
  std::string token;  // empty: none
  std::string build_id;
  bool allow_mixed_builds = false;
  std::optional<Tls> tls;
};

// 64 random bits from the system, not 0: which start of which process a message comes from.
uint64_t make_incarnation();

}  // namespace dtrain::rpc
