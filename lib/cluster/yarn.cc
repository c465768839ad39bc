#include "cluster/yarn.h"

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/poll_until.h"
#include "cluster/yarn_spec.h"
#include "launch/call_back.h"
#include "launch/host.h"
#include "net/endpoint.h"
#include "net/web/http_client.h"
#include "proc/signal_queue.h"

namespace dtrain::cluster {
namespace {

constexpr size_t kQuoteMax = 500;

// YARN's message in an answer: its diagnostics or, if there are none, the whole text.
std::string words_of(const net::WebAnswer& answer) {
  const nlohmann::json json = parse_json(answer.body);
  std::string words = answer.body;
  if (json.is_object() && json.contains("diagnostics") && json["diagnostics"].is_string())
    words = json["diagnostics"].get<std::string>();
  std::replace(words.begin(), words.end(), '\n', ' ');
  if (words.size() > kQuoteMax) words = words.substr(0, kQuoteMax) + "...";
  return fmt::format("HTTP {}: {}", answer.status, words.empty() ? "(no text)" : words);
}

bool is_success(const net::WebAnswer& answer) {
  return answer.status >= 200 && answer.status < 300;
}

std::string text_at(const nlohmann::json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

struct Service {
  std::string state;
  std::string diagnostics;
  int64_t running = 0, wanted = 0;  // number of containers that run, and that the service should have

  [[nodiscard]] bool has_ended() const { return state == "STOPPED" || state == "FAILED" || state == "SUCCEEDED"; }
};

// Parses the description of a service. Nullopt: this is not a service.
std::optional<Service> parse_service(const std::string& body) {
  const nlohmann::json json = parse_json(body);
  Service service{.state = text_at(json, "state"), .diagnostics = text_at(json, "diagnostics")};
  if (service.state.empty()) return std::nullopt;
  const nlohmann::json components = json.value("components", nlohmann::json::array());
  if (!components.is_array()) return service;
  for (const nlohmann::json& component : components) {
    if (!component.is_object()) continue;
    if (component.contains("number_of_containers") && component["number_of_containers"].is_number_integer())
      service.wanted += component["number_of_containers"].get<int64_t>();
    const nlohmann::json containers = component.value("containers", nlohmann::json::array());
    if (!containers.is_array()) continue;
    for (const nlohmann::json& container : containers) {
      const std::string state = text_at(container, "state");
      if (state == "READY" || state == "RUNNING_BUT_UNREADY") service.running++;
    }
  }
  return service;
}

class ServiceFollower {
 public:
  ServiceFollower(const YarnUrl& url, const std::string& name, const YarnLimits& limits)
      : url_(url), name_(name), limits_(limits) {}

  Result<> submit(const std::string& spec);
  Result<> follow();
  Result<> destroy();

 private:
  enum class Look { kGoesOn, kEnded };
  Result<Look> look();
  Result<Look> on_ended(const Service& service);
  void say(const std::string& text);
  // Returns false when the time is up, true when a signal has arrived.
  bool signal_within(std::chrono::milliseconds time);
  [[nodiscard]] std::string address(const std::string& path) const {
    return url_.base + "/app/v1/services" + path + (url_.query.empty() ? "" : "?" + url_.query);
  }

  const YarnUrl& url_;
  const std::string& name_;
  const YarnLimits& limits_;
  proc::SignalQueue signals_;
  std::string said_;
  bool was_seen_ = false;  // YARN has reported the service's state at least once
  bool all_run_ = false;
};

void ServiceFollower::say(const std::string& text) {
  if (text == said_) return;
  said_ = text;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

bool ServiceFollower::signal_within(std::chrono::milliseconds time) {
  const auto until = proc::Clock::now() + time;
  while (true) {
    for (const int signal : signals_.take()) {
      if (signal != SIGCHLD && signal != SIGUSR2) return true;
    }
    if (proc::Clock::now() >= until) return false;
    pollfd watched{.fd = signals_.fd(), .events = POLLIN, .revents = 0};
    poll_until({&watched, 1}, until);
  }
}

Result<> ServiceFollower::submit(const std::string& spec) {
  DT_TRY(const net::WebAnswer answer,
         net::ask_http({.method = "POST", .url = address(""), .body = spec, .ca_file = url_.ca_file}));
  if (!is_success(answer)) return fail(Code::kStartup, "YARN refused service {}: {}", name_, words_of(answer));
  say(fmt::format("service {} was submitted", name_));
  return {};
}

Result<> ServiceFollower::follow() {
  while (!signal_within(all_run_ ? limits_.ask_later : limits_.ask)) {
    DT_TRY(const Look now, look());
    if (now == Look::kEnded) return {};
  }
  return {};
}

// Looks at the service once. If YARN has answered before, a failure may be temporary: its resource manager may be
// restarted while containers run.
Result<ServiceFollower::Look> ServiceFollower::look() {
  Result<net::WebAnswer> answer = net::ask_http({.url = address("/" + name_), .ca_file = url_.ca_file});
  if (answer && answer->status == 404 && was_seen_)
    return fail(Code::kPeerLost, "service {} no longer exists: somebody else has destroyed it", name_);
  const std::optional<Service> service =
      answer && is_success(*answer) ? parse_service(answer->body) : std::optional<Service>();
  if (!service) {
    const std::string words = answer ? words_of(*answer) : answer.error().message;
    if (!was_seen_ && answer) {
      return fail(Code::kStartup, "YARN did not report the state of service {}: {}", name_, words);
    }
    say(fmt::format("YARN did not report the state of the service; dtrain asks again: {}", words));
    return Look::kGoesOn;
  }
  was_seen_ = true;
  all_run_ = service->wanted > 0 && service->running >= service->wanted;
  if (service->has_ended()) return on_ended(*service);
  say(fmt::format("service {} is {}: {} of {} containers are running", name_, service->state, service->running,
                  service->wanted));
  return Look::kGoesOn;
}

Result<ServiceFollower::Look> ServiceFollower::on_ended(const Service& service) {
  const std::string words = service.diagnostics.empty() ? "" : ": " + service.diagnostics;
  if (service.state == "FAILED") return fail(Code::kPeerLost, "service {} has failed{}", name_, words);
  if (service.state == "STOPPED")
    return fail(Code::kPeerLost, "service {} was stopped by YARN or somebody else{}", name_, words);
  say(fmt::format("service {} has ended{}", name_, words));
  return Look::kEnded;
}

Result<> ServiceFollower::destroy() {
  DT_TRY(const net::WebAnswer answer,
         net::ask_http({.method = "DELETE", .url = address("/" + name_), .ca_file = url_.ca_file}));
  if (answer.status == 404) return {};
  if (!is_success(answer)) {
    return fail(Code::kUnavailable, "YARN did not destroy service {}; destroy it with 'yarn app -destroy {}': {}",
                name_, name_, words_of(answer));
  }
  const auto until = proc::Clock::now() + limits_.destroy;
  while (proc::Clock::now() < until) {
    const Result<net::WebAnswer> look = net::ask_http({.url = address("/" + name_), .ca_file = url_.ca_file});
    if (look && look->status == 404) break;
    signal_within(std::chrono::milliseconds(200));
  }
  say(fmt::format("service {} was destroyed", name_));
  return {};
}

// The script that a container runs. YARN inserts the container's number.
std::string container_script(const YarnSetting& setting, const launch::AgentCommand& agents) {
  std::vector<std::string> words = agents.arguments;
  std::string text = "# Generated by dtrain.\n";
  if (setting.image.empty()) {
    text += "cd " + proc::shell_line({agents.directory}) + " || exit 3\n";
  } else {
    words.front() = "dtrain";
  }
  return text + "exec " + proc::shell_line(words) + " --number " + kYarnNumber + "\n";
}

std::string spec_for(const YarnSetting& setting, const launch::AgentCommand& agents) {
  YarnService service{.name = setting.name,
                      .queue = setting.request.queue,
                      .containers = setting.request.nodes,
                      .container = setting.request.node,
                      .lifetime = setting.request.time_limit,
                      .image = setting.image,
                      .script = container_script(setting, agents),
                      .environment = {fmt::format("{0}=@{0}@", launch::kAgentKey)}};
  if (!setting.library_path.empty()) service.environment.push_back("LD_LIBRARY_PATH=" + setting.library_path);
  return yarn_spec(service);
}

}  // namespace

Result<YarnUrl> parse_yarn_url(const std::string& url, const std::string& user) {
  const bool is_url = url.starts_with("http://") || url.starts_with("https://");
  const size_t begin = is_url ? url.find("://") + 3 : 0;
  const size_t question = std::min(url.find('?'), url.size());
  YarnUrl parsed{.base = url.substr(0, question), .query = {}, .host = {}};
  while (parsed.base.ends_with('/')) parsed.base.pop_back();
  if (question < url.size()) parsed.query = url.substr(question + 1);
  if (("&" + parsed.query).find("&user.name=") == std::string::npos && !user.empty())
    parsed.query += (parsed.query.empty() ? "user.name=" : "&user.name=") + user;
  const std::string rest = parsed.base.size() > begin ? parsed.base.substr(begin) : "";
  const std::string host = rest.substr(0, rest.find('/'));
  const size_t bracket = host.find(']');
  parsed.host = host.starts_with('[') && bracket != std::string::npos ? host.substr(1, bracket - 1)
                                                                      : host.substr(0, host.find(':'));
  if (!is_url || parsed.host.empty()) {
    return fail(Code::kUsage,
                "--launcher yarn={}: give the address of the resource manager's web services, such as http://HOST:8088",
                url.empty() ? "''" : url);
  }
  return parsed;
}

std::string to_text(const YarnUrl& url) {
  return url.base + (url.query.empty() ? "" : "?" + url.query);
}

launch::AgentStarter yarn_starter(const YarnSetting& setting) {
  return {
      .tool = "YARN", .allocation = {}, .follows_job = true, .command = [setting](const launch::AgentCommand& agents) {
        return launch::Command{.role = "yarn",
                               .arguments = {agents.arguments.front(), "launch-service", "--url", to_text(setting.url),
                                             "--name", setting.name},
                               .environment = {fmt::format("{}={}", kYarnSpec, spec_for(setting, agents))}};
      }};
}

Result<> follow_yarn_service(const YarnUrl& url, const std::string& name, const std::string& spec,
                             const YarnLimits& limits) {
  ServiceFollower follower(url, name, limits);
  if (Result<> submitted = follower.submit(spec); !submitted) {
    if (submitted.error().code != Code::kUnavailable) return submitted;
    // Destroys the service, because the request may have arrived even though the answer did not.
    const Result<> ignored = follower.destroy();
    return fail(Code::kStartup, "YARN cannot be reached: {}", submitted.error().message);
  }
  Result<> followed = follower.follow();
  Result<> destroyed = follower.destroy();
  if (!followed) return followed;
  return destroyed;
}

}  // namespace dtrain::cluster
