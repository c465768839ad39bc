// Requests to the web services of a cluster's manager, with libcurl: HTTP or HTTPS, with the proxy that the environment
// names, and with Kerberos (SPNEGO) if the service asks for it.
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace dtrain::net {

struct WebRequest {
  std::string method = "GET";
  std::string url;
  std::string body = {};     // body of the request, as JSON; empty: none
  std::string ca_file = {};  // certificates of the trusted authorities; empty: those of the system
  std::chrono::milliseconds limit{std::chrono::seconds(10)};
};
struct WebAnswer {
  int64_t status = 0;  // status code of the answer, such as 200 or 404
  std::string body;    // body of the answer, truncated to one MiB
};

// Returns the answer, whatever its status is. Code::kUnavailable: there is no answer; the message has the reason.
// kStartup: the module with libcurl cannot be loaded (base/module.h).
Result<WebAnswer> ask_http(const WebRequest& request);

}  // namespace dtrain::net
