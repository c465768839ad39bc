// What a peer must show on every call and stream: the job's token, the build id, the protocol version, and, with TLS, a
// certificate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace dtrain::rpc {

// To be increased when a message or its meaning changes (proto/, kvstore/wire).
inline constexpr uint32_t kProtocolVersion = 11;

// PEM texts. Both sides present a certificate and accept one that the authority has signed.
struct Tls {
  std::string certificate;
  std::string key;
  std::string authority;
};
// Reads the files of --tls-cert, --tls-key and --tls-ca. Code::kUsage unless all three are given; kNotFound if a file
// does not exist. certificates.h checks whether the certificates can be used.
Result<Tls> read_tls(const std::string& certificate_file, const std::string& key_file,
                     const std::string& authority_file);

// Has the same value in all processes of a job. The caller decides whether the token may be empty.
struct Security {
  std::string token;  // the job's token; empty: there is none
  std::string build_id;
  bool allow_mixed_builds = false;
  std::optional<Tls> tls;
};

// 64 random bits from the system, not 0. They identify the process that a message comes from, also among processes that
// have had the same rank one after the other.
uint64_t make_incarnation();

}  // namespace dtrain::rpc
