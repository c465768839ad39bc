// Owners of OpenSSL's objects, and functions to parse PEM texts. Included only by sources that use OpenSSL.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace dtrain::net::openssl {

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

// A password callback. It prevents OpenSSL from asking for the password of an encrypted key at the terminal.
inline int no_password(char* /*to*/, int /*size*/, int /*is_writing*/, void* /*data*/) {
  return -1;
}

inline Bio reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace dtrain::net::openssl
