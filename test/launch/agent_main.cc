// An agent program for the tests of this room; it takes the place of dtrain on another host. With an address it calls
// back to the launcher.
#include "launch/agent.h"

#include <cstdio>
#include <cstdlib>

#include "launch/call_back.h"

int main(int argc, char** argv) {
  using namespace dtrain;
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  launch::AgentOptions options{.build_id = variable("AGENT_BUILD").value(),
                               .record_root = variable("AGENT_RECORD_ROOT").value()};
  UniqueFd connection;
  if (argc > 3) {  // launch-agent --connect HOST:PORT
    auto called = net::parse_endpoint(argv[3]).and_then(
        [&](const net::Endpoint& to) { return launch::call_back(to, launch::hello_of(variable)); });
    if (!called) {
      std::fprintf(stderr, "%s\n", called.error().text().c_str());
      return 3;
    }
    connection = std::move(*called);
    options.in = options.out = connection.get();
  }
  return launch::run_agent(options) ? 0 : 1;
}
