// Says what is wrong with certificates, of which gRPC tells a caller only that there is no connection.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/endpoint.h"
#include "base/error.h"
#include "rpc/security.h"

namespace dtrain::rpc {

// Code::kUsage, naming the flag, if these cannot be used: a text is not in PEM form, the certificate does not belong to the
// key, is not valid today, or was not signed by the authority.
Result<> check_certificates(const Tls& tls);

// Connects, and tells why a connection with TLS to this address can never be made: somebody listens there, but one of the
// two certificates is refused, or TLS is not spoken. Nullopt if one can be made, or if nobody answers within `limit`.
std::optional<std::string> tls_refusal(const Endpoint& peer, const Tls& tls, std::chrono::milliseconds limit);

}  // namespace dtrain::rpc
