// Certificates that the openssl program makes during a test.
#pragma once

#include <cstdlib>
#include <string>

namespace dtrain::test {

struct CertificateKind {
  std::string names = "IP:127.0.0.1";  // in openssl's form
  bool has_expired = false;
};

// Makes a certificate authority (ca.pem, ca.key) and a certificate that it has signed (node.pem, node.key) in the
// directory `at`. An authority that is there already signs the new certificate.
inline bool make_certificates(const std::string& at, const CertificateKind& kind = {}) {
  const std::string key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
  const std::string sign =
      "openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile san -out node.pem ";
  // Of OpenSSL's versions, those before 3.4 have no -not_after, and later ones refuse a negative number of days.
  const std::string with_validity =
      kind.has_expired
          ? "{ " + sign + "-not_before 20200101000000Z -not_after 20200102000000Z || " + sign + "-days -1; }"
          : sign + "-days 2";
  const std::string script = "cd '" + at + "' && { test -e ca.pem || openssl req -x509 " + key +
                             " -keyout ca.key -out ca.pem -subj /CN=ca -days 2; } && openssl req " + key +
                             " -keyout node.key -out node.csr -subj /CN=node && printf 'subjectAltName=" + kind.names +
                             "' > san && " + with_validity;
  return std::system(("( " + script + " ) > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace dtrain::test
