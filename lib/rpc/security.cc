#include "rpc/security.h"

#include <sys/random.h>

#include "base/file.h"

namespace dtrain::rpc {

Result<Tls> read_tls(const std::string& certificate_file, const std::string& key_file,
                     const std::string& authority_file) {
  if (certificate_file.empty() || key_file.empty() || authority_file.empty()) {
    return fail(Code::kUsage, "TLS needs --tls-cert, --tls-key and --tls-ca");
  }
  Tls tls;
  DT_TRY(tls.certificate, read_file(certificate_file), "reading --tls-cert");
  DT_TRY(tls.key, read_file(key_file), "reading --tls-key");
  DT_TRY(tls.authority, read_file(authority_file), "reading --tls-ca");
  return tls;
}

uint64_t make_incarnation() {
  uint64_t value = 0;
  while (value == 0) {
    DT_CHECK(getrandom(&value, sizeof(value), 0) == sizeof(value), "getrandom failed");
  }
  return value;
}

}  // namespace dtrain::rpc
