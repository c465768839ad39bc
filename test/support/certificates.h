// Certificates that the openssl program makes during a test.
#pragma once

#include <cstdlib>
#include <string>

namespace dtrain::test {

// Makes a certificate authority (ca.pem, ca.key) and a certificate for 127.0.0.1 that it has signed (node.pem, node.key)
// in the folder `at`.
inline bool make_certificates(const std::string& at) {
  const std::string script =
      "cd '" + at +
      "' && "
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem "
      "-subj /CN=ca -days 2 && "
      "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout node.key -out node.csr "
      "-subj /CN=node && "
      "printf 'subjectAltName=IP:127.0.0.1' > san && "
      "openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out node.pem";
  return std::system(("( " + script + " ) > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace dtrain::test
