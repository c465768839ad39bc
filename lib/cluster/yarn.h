// Runs jobs on YARN through its services API. A service (yarn_spec.h) starts an agent in each of its containers, and
// the agents call back to the launcher. A separate process next to the launcher submits the service, follows it and
// destroys it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/batch_request.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

// The URL of --launcher yarn=URL: "http://HOST:8088", optionally with a query such as "?user.name=alice".
struct YarnUrl {
  std::string base;   // without a slash at the end
  std::string query;  // without the question mark; empty: none
  std::string host;
  std::string ca_file = {};  // file with certificates for https, as in net::WebRequest; empty: those of the system
};
// `user`: value of user.name, which clusters without Kerberos require, if the URL does not have it. Code::kUsage: not a
// URL.
Result<YarnUrl> parse_yarn_url(const std::string& url, const std::string& user);
std::string to_text(const YarnUrl& url);

struct YarnSetting {
  YarnUrl url;
  std::string name;      // name of the service
  BatchRequest request;  // queue, containers and the resources that they need
  std::string image = {};
  std::string library_path = {};  // LD_LIBRARY_PATH of the agents; empty: none
};
// The command that starts the agents is `dtrain launch-service`; its environment contains the specification.
launch::AgentStarter yarn_starter(const YarnSetting& setting);

inline constexpr const char* kYarnSpec = "DTRAIN_SERVICE_SPEC";

struct YarnLimits {
  std::chrono::milliseconds ask{std::chrono::seconds(1)};        // time between two queries, until all containers run
  std::chrono::milliseconds ask_later{std::chrono::seconds(5)};  // time between two queries, once all containers run
  // Time for the service to disappear after it was destroyed.
  std::chrono::milliseconds destroy{std::chrono::seconds(10)};
};

// Submits the service, prints its progress on stdout, and returns when it has ended. TERM and any failure destroy the
// service. Code::kStartup: YARN cannot be reached, or refuses; the message has YARN's own words. kPeerLost: the service
// failed, or another user stopped or destroyed it. The calling process must have a single thread.
Result<> follow_yarn_service(const YarnUrl& url, const std::string& name, const std::string& spec,
                             const YarnLimits& limits = {});

}  // namespace dtrain::cluster
