// Jobs on YARN by its services API. A service (yarn_spec.h) starts an agent in each of its containers, which calls back
// to the launcher; a process beside the launcher submits the service, follows it and destroys it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/batch_request.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

// What --launcher yarn=URL names: "http://HOST:8088", optionally with a query such as "?user.name=alice".
struct YarnUrl {
  std::string base;   // without a slash at the end
  std::string query;  // without the question mark; empty: none
  std::string host;
  std::string ca_file = {};  // see net::WebRequest
};
// `user`: becomes user.name, which clusters without Kerberos ask for, if the URL names none. Code::kUsage: not a URL.
Result<YarnUrl> parse_yarn_url(const std::string& url, const std::string& user);
std::string to_text(const YarnUrl& url);

struct YarnSetting {
  YarnUrl url;
  std::string name;      // of the service
  BatchRequest request;  // queue, containers and what they need
  std::string image = {};
  std::string library_path = {};  // LD_LIBRARY_PATH of the agents; empty: none
};
// The command is `dtrain launch-service`; its environment has the specification.
launch::AgentStarter yarn_starter(const YarnSetting& setting);

inline constexpr const char* kYarnSpec = "DTRAIN_SERVICE_SPEC";

struct YarnLimits {
  std::chrono::milliseconds ask{std::chrono::seconds(1)};        // between questions until all containers run
  std::chrono::milliseconds ask_later{std::chrono::seconds(5)};  // afterwards
  std::chrono::milliseconds destroy{std::chrono::seconds(10)};   // for the service to be gone after it was destroyed
};

// Submits the service, prints on stdout how it gets on, and returns when it has ended. TERM destroys it, as does any
// failure. Code::kStartup: YARN cannot be reached, or refuses, in its own words; kPeerLost: the service failed, or was
// stopped or destroyed by somebody else. The calling process must have a single thread.
Result<> follow_yarn_service(const YarnUrl& url, const std::string& name, const std::string& spec,
                             const YarnLimits& limits = {});

}  // namespace dtrain::cluster
