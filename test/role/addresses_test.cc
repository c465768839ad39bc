#include "role/process/addresses.h"

#include "job/process/token.h"
#include "role/process/observer.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::role;

TEST_CASE("a scheduler listens at the address that --scheduler gives to the other processes", "[role]") {
  job::LaunchFlags flags;
  CHECK(scheduler_listen(flags, "")->host == "127.0.0.1");
  CHECK(scheduler_listen(flags, "")->port_first == 0);
  flags.scheduler = "10.0.0.1:9091";
  const net::Listen listen = *scheduler_listen(flags, "token");
  CHECK(listen.host == "10.0.0.1");
  CHECK(listen.port_first == 9091);
  flags.bind = "0.0.0.0";
  flags.port_first = 9000;
  flags.port_last = 9010;
  CHECK(scheduler_listen(flags, "token")->host == "0.0.0.0");
  CHECK(scheduler_listen(flags, "token")->port_last == 9010);
  flags.advertise = "node7";
  CHECK(scheduler_host(flags, listen) == "node7");
}

TEST_CASE("the address of a page is a port, or a host and a port, and a wrong one is quoted as it was given",
          "[role]") {
  CHECK(observed_at("8080").value() == net::Endpoint{"127.0.0.1", 8080});
  CHECK(observed_at("node7:0").value() == net::Endpoint{"node7", 0});
  for (const std::string text : {"abc", "99999", "node7:99999", "node7:", "::1:80"}) {
    const Result<net::Endpoint> where = observed_at(text);
    REQUIRE(!where);
    CHECK(where.error().code == Code::kUsage);
    CHECK(
        where.error().message ==
        "--metrics-addr " + text +
            ": the address must have the form PORT or HOST:PORT, with a port from 0 to 65535; write an IPv6 address in "
            "brackets");
  }
}

// Without a token a process listens on loopback only, and the message names the ways out.
TEST_CASE("no process listens beyond loopback without a token", "[role]") {
  job::LaunchFlags flags;
  flags.scheduler = "10.0.0.1:9091";
  const auto refused = scheduler_listen(flags, "");
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kDenied);
  CHECK_THAT(refused.error().message,
             Catch::Contains("--token-file") && Catch::Contains("DTRAIN_TOKEN") && Catch::Contains("--insecure"));
  flags.insecure = true;
  CHECK(scheduler_listen(flags, ""));
  flags.insecure = false;
  flags.scheduler = "127.0.0.1:9091";
  flags.bind = "0.0.0.0";
  CHECK(server_address(flags, "").error().code == Code::kDenied);
}

TEST_CASE("a server on its scheduler's host listens on loopback", "[role]") {
  job::LaunchFlags flags;
  flags.scheduler = "127.0.0.1:9091";
  const ServerAddress address = *server_address(flags, "");
  CHECK(address.host == "127.0.0.1");
  CHECK(address.listen.host == "127.0.0.1");
}

TEST_CASE("a server listens only at the address of the interface that it is given", "[role]") {
  job::LaunchFlags flags;
  flags.scheduler = "10.0.0.1:9091";
  flags.interfaces = {"lo"};
  flags.advertise = "node7";
  const ServerAddress address = *server_address(flags, "");
  CHECK(address.host == "node7");
  CHECK(address.listen.host == "127.0.0.1");
  flags.bind = "0.0.0.0";
  CHECK(server_address(flags, "token")->listen.host == "0.0.0.0");
}

TEST_CASE("a server listens everywhere if only the address for the others is given", "[role]") {
  job::LaunchFlags flags;
  flags.scheduler = "127.0.0.1:9091";
  flags.advertise = "node7";
  CHECK(server_address(flags, "token")->listen.host == "0.0.0.0");
}

// Only a host with a network has another address than those of loopback.
TEST_CASE("a server on its scheduler's host listens at the scheduler's address", "[role]") {
  const auto own = net::source_address({"192.0.2.1", 1});
  if (!own || job::is_loopback(*own) || own->find(':') != std::string::npos) return;
  job::LaunchFlags flags;
  flags.scheduler = *own + ":9091";
  CHECK(server_address(flags, "token")->listen.host == *own);
}

TEST_CASE("a launcher advertises the address of its route, and loopback only to this host", "[role]") {
  job::LaunchFlags flags;
  CHECK(launcher_address(flags, {"127.0.0.1", "localhost"}).value() == "127.0.0.1");
  const auto unknown = launcher_address(flags, {"127.0.0.1", "no-such-host.invalid"});
  REQUIRE(!unknown);
  CHECK(unknown.error().code == Code::kStartup);
  CHECK_THAT(unknown.error().text(), Catch::Contains("no-such-host.invalid") && Catch::Contains("--advertise"));
  flags.advertise = "node7";
  CHECK(launcher_address(flags, {"no-such-host.invalid"}).value() == "node7");
}

TEST_CASE("the exact name of an interface selects the process's own address", "[role]") {
  job::LaunchFlags flags;
  flags.scheduler = "10.0.0.1:9091";
  flags.interfaces = {"eth-none", "lo"};
  CHECK(own_host(flags).value() == "127.0.0.1");
  CHECK(launcher_address(flags, {"10.0.0.2"}).value() == "127.0.0.1");
  flags.scheduler.clear();
  CHECK(scheduler_listen(flags, "")->host == "127.0.0.1");
  flags.interfaces = {"l"};  // a prefix of "lo", which ps-lite would accept
  const auto unknown = own_host(flags);
  REQUIRE(!unknown);
  CHECK(unknown.error().code == Code::kStartup);
  CHECK_THAT(unknown.error().message, Catch::Contains("no interface 'l'") && Catch::Contains("lo 127.0.0.1"));
}
