#include "job/spec/groups.h"

#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

namespace {

std::vector<WorkerPlace> on(const std::vector<std::string>& hosts) {
  std::vector<WorkerPlace> places;
  for (const std::string& host : hosts) places.push_back({host, ""});
  return places;
}

std::vector<int64_t> groups_in(const std::string& text, const std::vector<WorkerPlace>& workers,
                               Ungrouped ungrouped = Ungrouped::kError) {
  const auto groups = parse_groups({"groups", text}, workers, ungrouped);
  INFO((groups ? "" : groups.error().text()));
  REQUIRE(groups);
  return *groups;
}

std::string refused_groups(const std::string& text, const std::vector<WorkerPlace>& workers,
                           Ungrouped ungrouped = Ungrouped::kError) {
  const auto groups = parse_groups({"groups", text}, workers, ungrouped);
  REQUIRE_FALSE(groups);
  CHECK(groups.error().code == Code::kUsage);
  return groups.error().message;
}

using Groups = std::vector<int64_t>;

}  // namespace

// The example of MXNet-G's documentation, and the file in its repository.
TEST_CASE("the documented groups files are read without changes", "[job]") {
  const std::string example = "10.10.10.21\n10.10.10.22 10.10.10.23\n10.10.10.24 10.10.10.25 10.10.10.26\n";
  CHECK(groups_in(example, on({"10.10.10.21", "10.10.10.22", "10.10.10.23", "10.10.10.24", "10.10.10.25",
                               "10.10.10.26"})) == Groups{0, 1, 1, 2, 2, 2});
  // Ranks are not the order of IP strings.
  CHECK(groups_in(example, on({"10.10.10.26", "10.10.10.25", "10.10.10.21", "10.10.10.22", "10.10.10.24",
                               "10.10.10.23"})) == Groups{2, 2, 0, 1, 2, 1});
  const std::string repository =
      "10.10.10.25 10.10.10.26\n"
      "10.10.10.29 10.10.10.29 10.10.10.30 10.10.10.30\n"
      "10.10.10.31 10.10.10.31 10.10.10.31 10.10.10.33 10.10.10.33 10.10.10.33\n";
  const std::vector<WorkerPlace> hosts =
      on({"10.10.10.25", "10.10.10.26", "10.10.10.29", "10.10.10.29", "10.10.10.30", "10.10.10.30", "10.10.10.31",
          "10.10.10.31", "10.10.10.31", "10.10.10.33", "10.10.10.33", "10.10.10.33"});
  CHECK(groups_in(repository, hosts) == Groups{0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2});
}

TEST_CASE("a groups file names workers by host, address, index on the host or rank", "[job]") {
  const std::vector<WorkerPlace> workers = {
      {"a", "10.0.0.1"}, {"b", "10.0.0.2"}, {"a", "10.0.0.1"}, {"c", "fe80::3"}, {"c", "fe80::3"}};
  CHECK(groups_in("a 10.0.0.1\nb\nc c\n", workers) == Groups{0, 1, 0, 2, 2});
  CHECK(groups_in("a:1 c:0\n10.0.0.1:0 10.0.0.2:0 c:1\n", workers) == Groups{1, 1, 0, 0, 1});
  CHECK(groups_in("#4 #0\n\n  #1\t#2 #3 \r\n", workers) == Groups{0, 1, 1, 1, 0});
  CHECK(groups_in("fe80::3\n[fe80::3] a a b\n", workers) == Groups{1, 1, 1, 0, 1});
  CHECK(groups_in("[fe80::3]:1 a\n[fe80::3]:0 a b", workers) == Groups{0, 1, 1, 1, 0});
  // A host's name stands for those of its workers that no line of the file names individually.
  CHECK(groups_in("a c c\na:0 #1\n", workers) == Groups{1, 1, 0, 0, 0});
}

TEST_CASE("the workers of one host may be in several groups", "[job]") {
  CHECK(groups_in("h h\nh\n", on({"h", "h", "h"})) == Groups{0, 0, 1});
  CHECK(groups_in("#0 #1 #2", on({"h", "h", "h"})) == Groups{0, 0, 0});
}

TEST_CASE("unknown, repeated and missing workers are refused by name", "[job]") {
  const std::vector<WorkerPlace> workers = {{"node1", "10.0.0.1"}, {"node2", "10.0.0.2"}, {"node2", "10.0.0.2"}};
  CHECK_THAT(refused_groups("node1\nnode2 node3\n", workers),
             Contains("groups:2: no worker runs on 'node3'; workers run on node1, node2"));
  CHECK_THAT(refused_groups("#0 #1 #2\n\n#3\n", workers), Contains("groups:3: there is no worker #3: the job has 3"));
  CHECK_THAT(refused_groups("node2:2", workers), Contains("groups:1: there is no worker 'node2:2': 'node2' has 2"));
  CHECK_THAT(refused_groups("#0 #1\n#1 #2", workers),
             Contains("groups:2: '#1': worker 1 (node2) is already in a group"));
  CHECK_THAT(refused_groups("node1\nnode2 node2\n#2\n", workers), Contains("groups:2: 'node2' has 2 workers, and all"));
  CHECK_THAT(refused_groups("node1 node2\n", workers),
             Contains("groups: worker 2 (node2) is in no group") && Contains("#2") && Contains("--ungrouped own"));
  CHECK_THAT(refused_groups("", workers), Contains("groups: worker 0 (node1) is in no group"));
  CHECK_THAT(refused_groups("#x", workers), Contains("groups:1: '#x': 'x' is not a whole number"));
  CHECK_THAT(refused_groups("#-1", workers), Contains("groups:1: '#-1'"));
  CHECK_THAT(refused_groups("# all of them\nnode1", workers), Contains("groups:1: '#'"));  // no comments
  CHECK_THAT(refused_groups("node2:x", workers), Contains("'node2:x': 'x' is not"));
  CHECK_THAT(refused_groups(":1", workers), Contains("the host before the colon is missing"));
  CHECK_THAT(refused_groups("[node2", workers), Contains("no worker runs on '[node2'"));
}

TEST_CASE("each ungrouped worker gets its own group with --ungrouped own", "[job]") {
  const std::vector<WorkerPlace> workers = on({"a", "b", "c", "d"});
  CHECK(groups_in("b d\n", workers, Ungrouped::kOwn) == Groups{1, 0, 2, 0});
  CHECK(groups_in("", workers, Ungrouped::kOwn) == Groups{0, 1, 2, 3});
  CHECK_THAT(refused_groups("e", workers, Ungrouped::kOwn), Contains("no worker runs on 'e'"));
}

TEST_CASE("groups are assigned to ten thousand workers of one host", "[job]") {
  std::string text;
  for (int i = 0; i < 10000; i++) text += i % 100 == 99 ? "h\n" : "h ";
  const std::vector<int64_t> groups = groups_in(text, std::vector<WorkerPlace>(10000, {"h", "127.0.0.1"}));
  for (int64_t rank = 0; rank < 10000; rank++) REQUIRE(groups[static_cast<size_t>(rank)] == rank / 100);
}

TEST_CASE("a truncated or modified groups file is read or refused", "[job]") {
  const std::vector<WorkerPlace> workers = {{"a", "10.0.0.1"}, {"b", "fe80::1"}, {"b", "fe80::1"}};
  const std::string good = "a #1\n[fe80::1]:1\n";
  for (size_t size = 0; size < good.size(); size++) {
    const auto groups = parse_groups({"groups", good.substr(0, size)}, workers, Ungrouped::kOwn);
    if (groups) CHECK(groups->size() == 3);
  }
  for (size_t i = 0; i < good.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const auto groups = parse_groups({"groups", bad}, workers, Ungrouped::kOwn);
      if (groups) CHECK(groups->size() == 3);
    }
  }
}

TEST_CASE("written groups are read back, by rank on one host and by host on several hosts", "[job]") {
  const Groups groups = {1, 0, 0, 1, 2};
  const auto round_trip = [&](const std::vector<std::string>& hosts) {
    std::string text = format_groups(groups, on(hosts));
    CHECK(looks_like_groups(text));
    CHECK(groups_in(text, on(hosts)) == groups);
    return text;
  };
  CHECK(round_trip({"a", "a", "a", "a", "a"}) == "#1 #2\n#0 #3\n#4\n");
  CHECK(round_trip({"a", "b", "c", "d", "e"}) == "b c\na d\ne\n");
  CHECK(round_trip({"a", "b", "a", "fe80::1", "fe80::1"}) == "b a:1\na:0 [fe80::1]:0\n[fe80::1]:1\n");
}

TEST_CASE("other kinds of files are not recognized as groups files", "[job]") {
  CHECK(looks_like_groups(""));
  CHECK(looks_like_groups("10.10.10.22 node-4:0\n#3 [fe80::1]:1\n"));
  for (const char* text : {"import os, sys\n", "{\"groups\": 3}", "# Notes\n", "#x", ":1", "a=b"}) {
    INFO(text);
    CHECK_FALSE(looks_like_groups(text));
  }
}

}  // namespace dtrain::job
