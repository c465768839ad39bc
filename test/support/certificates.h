// Certificates that the openssl program makes during a test.
#pragma once

#include <cstdlib>
#include <string>

namespace dtrain::test {

struct CertificateKind {
  std::string names = "IP:127.0.0.1";  // in openssl's form
  int days = 2;                        // that it is valid from now on; negative: it has expired
};

// Makes a certificate authority (ca.pem, ca.key) and a certificate that it has signed (node.pem, node.key) in the folder
// `at`. An authority that is there already signs the new certificate.
inline bool make_certificates(const std::string& at, const CertificateKind& kind = {}) {
  const std::string script =
      "cd '" + at +
      "' && "
      "{ test -e ca.pem || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key "
      "-out ca.pem -subj /CN=ca -days 2; } && "
      "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout node.key -out node.csr "
      "-subj /CN=node && "
      "printf 'subjectAltName=" +
      kind.names +
      "' > san && "
      "openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days " +
      std::to_string(kind.days) + " -extfile san -out node.pem";
  return std::system(("( " + script + " ) > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace dtrain::test
