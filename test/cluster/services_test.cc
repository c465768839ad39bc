// Jobs on YARN and in Kubernetes, whose parts are played by programs of test/cluster/doubles: these check what they are
// given, and start the containers of a job as processes of this host. Neither launcher has met the real thing.
#include <fmt/core.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/held_port.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kServiceSeconds = 90;
const std::vector<std::string> kBrief = {"--num-epochs", "1", "--num-batches", "5"};

std::string double_program(const std::string& name) {
  return std::string(std::getenv("DTRAIN_DOUBLES")) + "/" + name;
}

std::string text_of(const std::string& path) {
  return read_file(path).value_or("");
}

// YARN, as it appears to a launcher.
class Yarn {
 public:
  explicit Yarn(const std::vector<std::string>& flags = {})
      : program_(command_line(double_program("yarn"), dir_.path(), flags)) {
    REQUIRE(program_.wait_for_output("\n", kServiceSeconds));
    port_ = std::stoi(program_.output().substr(5));
  }
  void set(const std::string& file, const std::string& text) const { must(write_file_atomic(dir_.path(file), text)); }
  [[nodiscard]] std::string requests() const { return text_of(dir_.path("requests")); }
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path(name); }
  [[nodiscard]] std::vector<std::string> job(const std::string& scheme = "http") const {
    return command_line(dtrain_program(), "-n 2 -s 1 --launcher", fmt::format("yarn={}://localhost:{}", scheme, port_),
                        "--run-dir", dir_.path("run"), endless_training());
  }
  [[nodiscard]] Ended run_job(const std::vector<std::string>& more = kBrief, const std::string& scheme = "http",
                              const std::vector<std::string>& environment = {}) const {
    return run(command_line(job(scheme), more),
               {.deadline_s = kServiceSeconds, .directory = dir_.path(), .environment = environment});
  }

 private:
  TempDir dir_;
  Process program_;
  int port_ = 0;
};

// Kubernetes, as it appears to kubectl.
class Kubernetes {
 public:
  Kubernetes() {
    std::filesystem::create_directories(dir_.path("state"));
    std::filesystem::create_directories(dir_.path("bin"));
    std::filesystem::create_symlink(double_program("kubectl"), dir_.path("bin/kubectl"));
    std::filesystem::create_symlink(dtrain_program(), dir_.path("bin/dtrain"));  // in every pod's image
    set("scheduler", fmt::format("127.0.0.1:{}", port_.number()));
  }
  void set(const std::string& file, const std::string& text) const {
    must(write_file_atomic(dir_.path("state/" + file), text));
  }
  [[nodiscard]] std::string calls() const { return text_of(dir_.path("state/calls")); }
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path(name); }
  [[nodiscard]] bool is_empty() const {
    return !std::filesystem::exists(dir_.path("state/job")) && !std::filesystem::exists(dir_.path("state/service")) &&
           !std::filesystem::exists(dir_.path("state/secret"));
  }
  [[nodiscard]] static std::vector<std::string> job(const std::vector<std::string>& more) {
    return command_line(dtrain_program(), "-n 2 -s 1 --launcher kubernetes --image dtrain:1 --run-dir run",
                        endless_training(), more);
  }
  [[nodiscard]] ProcessOptions options(const std::string& path) const {
    return {.deadline_s = kServiceSeconds,
            .directory = dir_.path(),
            .environment = {"PATH=" + path, "KUBECTL_DOUBLE=" + dir_.path("state")}};
  }
  [[nodiscard]] ProcessOptions options() const { return options(dir_.path("bin") + ":" + std::getenv("PATH")); }

 private:
  TempDir dir_;
  HeldPort port_;  // of the job's scheduler
};

}  // namespace

TEST_CASE("a job on YARN runs in its containers and is destroyed at its end", "[yarn]") {
  const Yarn yarn;
  const Ended end = yarn.run_job();
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, "[worker 0 container-1] "));
  CHECK(contains(end.output, "is STARTED: 2 of 2 containers are running"));
  CHECK(std::filesystem::exists(yarn.path("run/summary.json")));
  CHECK(contains(yarn.requests(), "DELETE /app/v1/services/dtrain-lenet-"));
  // The key of the agents is on no command line.
  CHECK_FALSE(contains(text_of(yarn.path("container-0/conf/dtrain.sh")), "KEY"));
}

TEST_CASE("a stopped job on YARN leaves no service", "[yarn]") {
  const Yarn yarn;
  SECTION("while it runs") {
    Process job(yarn.job(), {.directory = yarn.path(""), .environment = {}});
    REQUIRE(job.wait_for_output("Time cost=", kServiceSeconds));
    job.signal(SIGINT);
    CHECK(job.wait(kServiceSeconds).code == 75);
  }
  SECTION("while it waits") {
    yarn.set("pending", "");
    Process job(yarn.job(), {.directory = yarn.path(""), .environment = {}});
    REQUIRE(job.wait_for_output("0 of 2 containers are running", kServiceSeconds));
    job.signal(SIGTERM);
    CHECK(job.wait(kServiceSeconds).code != 0);
  }
  CHECK(contains(yarn.requests(), "DELETE "));
}

TEST_CASE("what YARN refuses ends the job with code 3 and YARN's words", "[yarn]") {
  const Yarn yarn;
  std::string words;
  std::vector<std::string> more = kBrief;
  SECTION("the specification") {
    yarn.set("answer", R"(400 {"diagnostics": "Queue research is unknown"})");
    words = "HTTP 400: Queue research is unknown";
  }
  SECTION("any request") {
    yarn.set("answer", "503 standby");
    words = "HTTP 503: standby";
  }
  SECTION("an answer that is not a service") {
    yarn.set("get", "<html>Welcome</html>");
    words = "HTTP 200: <html>Welcome</html>";
  }
  SECTION("a service that fails") {
    yarn.set("fail", "the containers could not be started");
    words = "has failed: the containers could not be started";
  }
  const HeldPort nobodys;
  SECTION("nobody is there") {
    more.insert(more.end(),
                {"--launcher", fmt::format("yarn=http://localhost:{}", nobodys.number()), "--advertise", "127.0.0.1"});
    words = "YARN cannot be reached: POST http://localhost:";
  }
  const Ended end = yarn.run_job(more);
  INFO(end.output);
  CHECK(end.code == 3);
  CHECK(contains(end.output, words));
}

TEST_CASE("YARN is reached over TLS if its certificate is trusted", "[yarn]") {
  const TempDir certificates;
  REQUIRE(run({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost", "-keyout", certificates.path("key.pem"), "-out",
               certificates.path("cert.pem")})
              .code == 0);
  const Yarn yarn({"--tls", certificates.path()});
  const Ended refused = yarn.run_job(kBrief, "https");
  CHECK(refused.code == 3);
  CHECK(contains(refused.output, "certificate"));
  const Ended end = yarn.run_job(kBrief, "https", {"SSL_CERT_FILE=" + certificates.path("cert.pem")});
  INFO(end.output);
  CHECK(end.code == 0);
}

TEST_CASE("a job in Kubernetes runs in its pods and is deleted at its end", "[kubernetes]") {
  const Kubernetes cluster;
  const Ended end = run(Kubernetes::job(kBrief), cluster.options());
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK_FALSE(contains(end.output, "] finding "));
  CHECK(contains(end.output, "Finished after 1 epoch"));
  CHECK(std::filesystem::exists(cluster.path("run/summary.json")));
  CHECK(cluster.is_empty());
}

TEST_CASE("Ctrl-C deletes a job in Kubernetes after its checkpoint", "[kubernetes]") {
  const Kubernetes cluster;
  Process job(Kubernetes::job({}), cluster.options());
  REQUIRE(job.wait_for_output("Time cost=", kServiceSeconds));
  job.signal(SIGINT);
  const Ended end = job.wait(kServiceSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(checkpoint_count(cluster.path("run")) > 0);
  CHECK(cluster.is_empty());
}

TEST_CASE("a job that Kubernetes cannot run ends with code 3 or that of its first failure", "[kubernetes]") {
  const Kubernetes cluster;
  ProcessOptions options = cluster.options();
  std::string words;
  int code = 3;
  std::vector<std::string> more = kBrief;
  SECTION("refused manifests") {
    cluster.set("refuse", "error: jobs.batch is forbidden: exceeded quota");
    words = "exceeded quota";
  }
  SECTION("an image that does not exist") {
    cluster.set("waiting", "ImagePullBackOff: Back-off pulling image dtrain:1");
    words = "cannot start: ImagePullBackOff: Back-off pulling image dtrain:1";
  }
  SECTION("no kubectl") {
    options = cluster.options("/nonexistent");
    words = "--launcher print=kubernetes";
  }
  SECTION("a process that fails") {
    more.insert(more.end(), {"--load-epoch", "0", "--model-prefix", "nothing"});
    words = "failed first, with code 7";
    code = 7;
  }
  const Ended end = run(Kubernetes::job(more), options);
  INFO(end.output);
  CHECK(end.code == code);
  CHECK(contains(end.output, words));
  CHECK(cluster.is_empty());
}
