#include "launch/call_back.h"

#include <map>

#include "support/catch.h"

namespace dtrain::launch {
namespace {

job::Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace

TEST_CASE("an agent's hello survives its line, and nothing else passes for one", "[launch][agents]") {
  const Hello hello{.key = "k e%y", .number = 3, .host = "node3", .addresses = {"10.0.0.3", "fd00::3"}};
  const std::string line = to_line(hello);
  const Hello again = parse_hello(std::string_view(line).substr(0, line.size() - 1)).value();
  CHECK(again.key == hello.key);
  CHECK(again.number == 3);
  CHECK(again.host == "node3");
  CHECK(again.addresses == hello.addresses);
  for (const char* text : {"", "hello", "hello key 1", "GET / HTTP/1.1", "goodbye key 1 host", "hello %zz 1 host"}) {
    INFO(text);
    CHECK(parse_hello(text).error().code == Code::kDenied);
  }
}

TEST_CASE("an agent knows its number from the command that started it", "[launch][agents]") {
  CHECK(hello_of(environment_of({})).number == -1);
  CHECK(hello_of(environment_of({{"OMPI_COMM_WORLD_RANK", "2"}, {"SLURM_PROCID", "0"}})).number == 2);
  CHECK(hello_of(environment_of({{"PMI_RANK", "5"}})).number == 5);
  CHECK(hello_of(environment_of({{"SLURM_PROCID", "1"}, {"SLURMD_NODENAME", "n7"}})).host == "n7");
  CHECK(hello_of(environment_of({{"SGE_TASK_ID", "1"}})).number == 0);
  CHECK(hello_of(environment_of({{"SGE_TASK_ID", "undefined"}})).number == -1);
  CHECK(call_back({"127.0.0.1", 1}, hello_of(environment_of({}))).error().message.find("DTRAIN_AGENT_KEY is not set") ==
        0);
}

TEST_CASE("an agent is given the host of its name, else of its address, else of its number", "[launch][agents]") {
  const std::vector<std::string> hosts = {"node1", "10.0.0.2", "node3.cluster"};
  const auto place = [&](const Hello& hello, const std::vector<bool>& taken) { return place_of(hello, hosts, taken); };
  const std::vector<bool> none(3);
  CHECK(place({.number = 0, .host = "node3"}, none) == 2u);
  CHECK(place({.number = 0, .host = "node1.cluster"}, none) == 0u);
  CHECK(place({.number = 0, .host = "other", .addresses = {"fd00::2", "10.0.0.2"}}, none) == 1u);
  CHECK(place({.number = 2, .host = "other"}, none) == 2u);
  CHECK(place({.number = 2, .host = "node3"}, {false, false, true}) == 0u);
  CHECK(place({.number = -1, .host = "other"}, {true, false, true}) == 1u);
  CHECK(place({.number = 7, .host = "other"}, {true, true, true}) == std::nullopt);
  // Addresses have dots too, but no domain.
  CHECK(place_of({.number = -1, .host = "10"}, {"10.0.0.2", "10"}, {false, false}) == 1u);
}

}  // namespace dtrain::launch
