#include "net/web/digest.h"

#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace dtrain::net {

struct Digester::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Digester::Digester(DigestKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* const algorithm = kind == DigestKind::kMd5 ? EVP_md5() : EVP_sha256();
  DT_CHECK(EVP_DigestInit_ex(state_->context.get(), algorithm, nullptr) == 1,
           "OpenSSL does not provide this checksum (its FIPS mode does not allow MD5)");
}

Digester::~Digester() = default;

void Digester::add(std::span<const std::byte> bytes) {
  DT_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1, "EVP_DigestUpdate failed");
}

std::string Digester::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  DT_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size) == 1, "EVP_DigestFinal_ex failed");
  std::string text;
  for (unsigned i = 0; i < size; i++) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace dtrain::net
