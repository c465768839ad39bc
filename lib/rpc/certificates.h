// Finds out what is wrong with certificates, because gRPC reports only that there is no connection.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"
#include "net/endpoint.h"
#include "rpc/security.h"

namespace dtrain::rpc {

// Code::kUsage, naming the flag, if the texts cannot be used: one is not in PEM format, or the certificate does not
// match the key, is not valid today, or was not signed by the authority.
Result<> check_certificates(const Tls& tls);

// How long a connection may be missing before tls_refusal() asks the peer for the reason, and how often it asks.
inline constexpr std::chrono::milliseconds kLookAtTls{1'000};

// Connects, and returns why no connection to this address can ever be made: a process listens there, but one of the two
// certificates is refused, or only one side uses TLS. Nullopt if a connection can be made, or if there is no answer
// within `limit`. If `tls` is empty, this process does not use TLS. The process must ignore SIGPIPE.
std::optional<std::string> tls_refusal(const net::Endpoint& peer, const std::optional<Tls>& tls,
                                       std::chrono::milliseconds limit);

}  // namespace dtrain::rpc
