// An agent program for the tests of this room; it takes the place of dtrain on another host.
#include "launch/agent.h"

#include <cstdlib>

int main() {
  const char* build = std::getenv("AGENT_BUILD");
  const char* root = std::getenv("AGENT_RECORD_ROOT");
  const auto end = dtrain::launch::run_agent({.build_id = build, .record_root = root});
  return end ? 0 : 1;
}
