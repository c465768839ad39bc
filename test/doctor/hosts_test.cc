// How dtrain doctor gathers its facts on a host, and how hosts connect to each other.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/poll_until.h"
#include "doctor/examination.h"
#include "doctor/gather.h"
#include "doctor/peers.h"
#include "job/flags/flags.h"
#include "net/acceptor.h"
#include "net/connecting.h"
#include "support/catch.h"
#include "support/held_port.h"
#include "support/must.h"
#include "support/patience.h"
#include "support/temp_dir.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::doctor;
using namespace std::chrono_literals;
using dtrain::test::contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

// A host that serves its peers as long as the object lives.
class Listener {
 public:
  Listener() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    stop_ = UniqueFd(ends[0]);
    running_ = UniqueFd(ends[1]);
    net::ListeningSockets listening = must(listen_at({}));
    port_ = listening.port;
    thread_ = std::thread([this, sockets = std::move(listening.sockets)]() mutable {
      serve_peers(std::move(sockets), "key", 60s, Log::silent(), stop_.get());
    });
  }
  ~Listener() {
    running_.close();
    thread_.join();
  }
  [[nodiscard]] net::Endpoint endpoint() const { return {"127.0.0.1", port_}; }

 private:
  UniqueFd stop_, running_;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace

TEST_CASE("hosts that know the key connect, measure round trips and compare clocks", "[doctor]") {
  const Listener a, b;
  const std::vector<Contact> contacts = contact_all({{3, a.endpoint()}, {7, b.endpoint()}}, "key", 5s);
  REQUIRE(contacts.size() == 2);
  for (const Contact& contact : contacts) {
    INFO(contact.error);
    CHECK(contact.error.empty());
    CHECK(contact.round_trip_s > 0);
    CHECK(std::abs(contact.clock_ahead_s) < 0.1);
  }
  CHECK(contacts[1].host == 7);
}

TEST_CASE("a stranger's connection does not count, whoever it comes from", "[doctor]") {
  const Listener a;
  const std::vector<Contact> contacts = contact_all({{1, a.endpoint()}}, "guess", 5s);
  CHECK(contains(contacts[0].error, "closed the connection"));
  // A port at which something else answers.
  const net::ListeningSockets other = must(listen_at({}));
  const std::vector<Contact> silent = contact_all({{1, {"127.0.0.1", other.port}}}, "key", 200ms);
  CHECK(contains(silent[0].error, "connected, but no answer within"));
}

// The close reaches the other end as a reset if bytes were unread, and as the end of the stream if not.
TEST_CASE("strangers who say nothing give way to the job's hosts, however many they are", "[doctor]") {
  const Listener host;
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < net::AcceptorLimits::of_process().waiting_max + 10; i++) {
    strangers.push_back(must(net::connect_to(host.endpoint(), 5s)));
  }
  REQUIRE(::write(strangers.back().get(), "d", 1) == 1);
  const std::vector<Contact> contacts = contact_all({{.host = 1, .endpoint = host.endpoint()}}, "key", 5s);
  CHECK(contacts[0].error.empty());
  pollfd first{.fd = strangers.front().get(), .events = POLLIN, .revents = 0};
  CHECK(poll_until({&first, 1}, std::chrono::steady_clock::now() + dtrain::test::kPatience) == 1);  // closed
}

TEST_CASE("a peer that closes is told in the same words, whenever it closes", "[doctor]") {
  const net::ListeningSockets listening = must(listen_at({}));
  const bool reads_all = GENERATE(false, true);
  std::thread peer([&] {
    pollfd caller{.fd = listening.sockets[0].get(), .events = POLLIN, .revents = 0};
    ::poll(&caller, 1, 10'000);
    const UniqueFd connection(::accept4(caller.fd, nullptr, nullptr, SOCK_CLOEXEC));
    const std::string all = "dtrain-doctor guess\nping\n";
    std::string heard(all.size(), ' ');
    ::recv(connection.get(), heard.data(), heard.size(), MSG_WAITALL | (reads_all ? 0 : MSG_PEEK));
  });
  const PathSpeed speed = measure_path({"127.0.0.1", listening.port}, "guess", 20ms);
  peer.join();
  CHECK(speed.error == "the peer closed the connection");
}

TEST_CASE("a port at which nobody listens is an error with its cause", "[doctor]") {
  const dtrain::test::HeldPort port;
  const std::vector<Contact> contacts = contact_all({{1, {"127.0.0.1", port.number()}}}, "key", 5s);
  CHECK(contains(contacts[0].error, "Connection refused"));
}

TEST_CASE("the first free port of a range is taken", "[doctor]") {
  const net::ListeningSockets first = must(listen_at({}));
  if (first.port == 65535) return;
  const auto next = static_cast<uint16_t>(first.port + 1);
  const auto taken = listen_at({.host = "127.0.0.1", .port_first = first.port, .port_last = first.port});
  REQUIRE(!taken);
  CHECK(contains(taken.error().message, fmt::format("ports {0}-{0}: Address already in use", first.port)));
  const auto second = listen_at({.host = "127.0.0.1", .port_first = first.port, .port_last = next});
  if (second) CHECK(second->port == next);  // unless another program has it
}

TEST_CASE("the speed of a path is measured in both directions", "[doctor]") {
  const Listener a;
  const PathSpeed speed = measure_path(a.endpoint(), "key", 20ms);
  INFO(speed.error);
  CHECK(speed.error.empty());
  CHECK(speed.out > 1e6);
  CHECK(speed.back > 1e6);
  CHECK(contains(measure_path(a.endpoint(), "guess", 20ms).error, "closed the connection"));
}

TEST_CASE("targets survive their way through a command line", "[doctor]") {
  const std::vector<Target> targets = {{0, {"10.0.0.1", 4000}}, {12, {"fe80::1", 1}}};
  CHECK(to_text(targets) == "0=10.0.0.1:4000,12=[fe80::1]:1");
  const std::vector<Target> read = must(parse_targets(to_text(targets)));
  REQUIRE(read.size() == 2);
  CHECK(read[1].host == 12);
  CHECK(read[1].endpoint == targets[1].endpoint);
  CHECK(!parse_targets("10.0.0.1:4000"));
}

// In each round a host belongs to one pair at most, so that paths are measured one at a time; each pair comes once.
TEST_CASE("all pairs are measured in rounds", "[doctor]") {
  for (const size_t hosts : {0UL, 1UL, 2UL, 3UL, 8UL, 101UL}) {
    std::set<std::pair<size_t, size_t>> seen;
    for (const auto& round : rounds_of(hosts)) {
      std::set<size_t> busy;
      for (const auto& [a, b] : round) {
        CHECK(a < b);
        CHECK(b < hosts);
        CHECK(busy.insert(a).second);
        CHECK(busy.insert(b).second);
        CHECK(seen.insert({a, b}).second);
      }
    }
    CHECK(seen.size() == hosts * (hosts - (hosts > 0 ? 1 : 0)) / 2);
    CHECK(rounds_of(hosts).size() <= hosts);
  }
}

TEST_CASE("a host tells its processor, memory and limits", "[doctor]") {
  Facts facts;
  gather_system(facts);
  CHECK(!facts.build_id.empty());
  CHECK(facts.processor.cores > 0);
  CHECK(facts.open_files > 0);
  CHECK(facts.memory_bytes > 0);
  CHECK(facts.memory_free_bytes > 0);
  CHECK(facts.memory_free_bytes <= facts.memory_bytes);
}

TEST_CASE("names are resolved to all their addresses, or to an error", "[doctor]") {
  const std::vector<ResolvedName> names = resolve_names({"127.0.0.1", "no-such-host.invalid"});
  CHECK(names[0].addresses == std::vector<std::string>{"127.0.0.1"});
  CHECK(names[1].addresses.empty());
  CHECK(!names[1].error.empty());
  CHECK(resolve_names({}).empty());
}

TEST_CASE("a run directory is judged by the nearest directory that exists, and not created", "[doctor]") {
  const TempDir dir;
  const RunDirectory found = look_at_run_directory(dir.path("runs/a/b"));
  CHECK(found.path == dir.path("runs/a/b"));
  CHECK(found.existing == dir.path());
  CHECK(found.writable);
  CHECK(found.free_bytes > 0);
  CHECK(!std::filesystem::exists(dir.path("runs")));
  must(write_file_atomic(dir.path("file"), ""));
  CHECK(contains(look_at_run_directory(dir.path("file/run")).error, "not a directory"));
}

TEST_CASE("data files have a size and a checksum that tells copies apart", "[doctor]") {
  const TempDir dir;
  for (const char* name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    must(write_file_atomic(dir.path(name), name));
  }
  job::Flags flags;
  flags.data.data_dir = dir.path();
  flags.job.augment.data_type = "mnist";
  const std::vector<DataFile> files = must(data_files(flags));
  REQUIRE(files.size() == 4);
  CHECK(files[0].path == dir.path("train-images-idx3-ubyte"));
  CHECK(files[0].bytes == 23);
  must(write_file_atomic(dir.path("train-images-idx3-ubyte"), "train-images-idx3-ubytE"));
  CHECK(must(data_files(flags))[0].bytes == 23);
  CHECK(must(data_files(flags))[0].checksum != files[0].checksum);
  std::filesystem::remove(dir.path("t10k-labels-idx1-ubyte"));
  const auto missing = data_files(flags);
  REQUIRE(!missing);
  CHECK(contains(missing.error().message, "t10k-labels-idx1-ubyte"));
}

TEST_CASE("a job's memory follows from its network, batch and servers", "[doctor]") {
  const auto needs = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--network", "lenet", "--benchmark", "1", "-n", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const job::Parsed parsed = must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; }));
    Facts facts;
    gather_job(parsed.flags, false, facts);
    INFO(facts.needs.error);
    CHECK(facts.needs.error.empty());
    return facts.needs;
  };
  const MemoryNeeds one = needs({"-s", "1", "--batch-size", "64"});
  const MemoryNeeds two = needs({"-s", "2", "--batch-size", "128"});
  CHECK(one.worker > 0);
  CHECK(two.worker > one.worker);
  CHECK(two.server == Approx(one.server / 2));
  CHECK(one.checkpoint < one.server);  // weights and momentum; the server also has the sums
}
