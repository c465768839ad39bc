#include "launch/command.h"

#include "support/catch.h"

using namespace dtrain::launch;

TEST_CASE("a printed command line is quoted for a shell", "[launch]") {
  CHECK(proc::shell_line({"/usr/bin/dtrain", "--lr", "0.1", "--data-dir", "my data", "it's", ""}) ==
        "/usr/bin/dtrain --lr 0.1 --data-dir 'my data' 'it'\\''s' ''");
}

TEST_CASE("the table of processes shows rank, role, host and command, and no variables", "[launch]") {
  const std::vector<Command> commands = {
      {.role = "scheduler",
       .host = "node",
       .arguments = {"dtrain", "--role", "scheduler"},
       .environment = {"A=secret"}},
      {.role = "worker", .rank = 1, .host = "node", .arguments = {"dtrain", "--role", "worker"}, .environment = {}},
  };
  CHECK(process_table(commands) ==
        "rank  role       host  command\n"
        "0     scheduler  node  dtrain --role scheduler\n"
        "1     worker     node  dtrain --role worker\n");
  CHECK(commands[0].name() == "scheduler");
  CHECK(commands[1].name() == "worker 1");
}
