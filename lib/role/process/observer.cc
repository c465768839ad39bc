#include "role/process/observer.h"

#include <algorithm>
#include <chrono>

#include "base/host_limits.h"
#include "base/thread.h"
#include "job/process/token.h"
#include "observe/open_metrics.h"
#include "observe/page/page.h"
#include "role/process/addresses.h"
#include "role/process/membership.h"
#include "role/process/run_dir.h"

namespace dtrain::role {
namespace {

using net::HttpAnswer;
using net::HttpRoute;

constexpr std::chrono::seconds kInterval{1};
constexpr const char* kThisHost = "127.0.0.1";
constexpr const char* kFlag = "--metrics-addr";
constexpr const char* kHtml = "text/html; charset=utf-8";

observe::JobIdentity identity_of(const Process& process) {
  const job::JobFlags& job = process.flags.job;
  return {.name = run_name(process.run_dir.path()),
          .network = job.network.network,
          .scheme = job.scheme.kv_store,
          .workers = static_cast<uint32_t>(job.num_workers),
          .servers = static_cast<uint32_t>(job.num_servers)};
}

// The URL that a user or a metrics scraper opens.
std::string url_of(const net::Endpoint& where, uint16_t port, bool is_encrypted, const char* path) {
  return fmt::format("{}://{}{}", is_encrypted ? "https" : "http",
                     net::to_text({where.host == "0.0.0.0" || where.host == "::" ? host_name() : where.host, port}),
                     path);
}

// The certificate of the job's TLS; nullopt if the job does not use TLS.
Result<std::optional<net::ServerCertificate>> certificate_of(const job::LaunchFlags& flags) {
  DT_TRY(const rpc::Security security, security_of(flags));
  if (!security.tls) return std::nullopt;
  return net::ServerCertificate{security.tls->certificate, security.tls->key};
}

// The host name or address by which others reach a server that listens at `where`.
std::string host_for_others(const net::Endpoint& where, const job::LaunchFlags& flags) {
  if (where.host != "0.0.0.0" && where.host != "::") return where.host;
  if (!flags.scheduler.empty()) {
    const Result<std::string> host = own_host(flags);
    if (host && !job::is_loopback(*host)) return *host;
  }
  return host_name();
}

// The job's token. Code::kDenied if there is none and the address needs one.
Result<std::string> allowed_token(const net::Endpoint& where, const job::LaunchFlags& flags) {
  DT_TRY(std::string token, job::token_of(flags), "reading the job's token");
  DT_TRY_VOID(job::check_token_policy(token, flags.insecure, where.host), "serving {}", kFlag);
  return token;
}

HttpRoute metrics_route(const observe::JobFacts& facts, const char* accepted, observe::MetricsForm form,
                        const char* type) {
  return {.path = "/metrics", .accepted = accepted, .answer = [&facts, form, type]() -> HttpAnswer {
            return {type, observe::open_metrics_text(facts.name(), facts.sources(), form)};
          }};
}

HttpAnswer answer_of(const Result<std::string>& traced) {
  constexpr int kConflict = 409;
  constexpr const char* kText = "text/plain; charset=utf-8";
  return traced ? HttpAnswer{kText, *traced} : HttpAnswer{kText, traced.error().message, kConflict};
}

}  // namespace

Result<net::Endpoint> observed_at(const std::string& text) {
  const bool is_port = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const std::string address = is_port ? fmt::format("{}:{}", kThisHost, text) : text;
  if (Result<net::Endpoint> where = net::parse_endpoint(address, 0)) return where;
  return fail(Code::kUsage,
              "{} {}: the address must have the form PORT or HOST:PORT, with a port from 0 to 65535; write an IPv6 "
              "address in brackets",
              kFlag, text);
}

Result<> check_observed(const job::LaunchFlags& flags) {
  if (flags.metrics_addr.empty()) return {};
  DT_TRY(const net::Endpoint where, observed_at(flags.metrics_addr));
  DT_TRY_VOID(allowed_token(where, flags));
  return {};
}

Observer::Observer(const Process& process, Knows knows, State state, Trace trace)
    : knows_(knows),
      trace_(std::move(trace)),
      registry_(*process.registry),
      state_(std::move(state)),
      log_(process.log),
      facts_(identity_of(process)),
      tail_(process.run_dir.path()) {}

Result<std::unique_ptr<Observer>> Observer::of_job(const Process& process, State state, Trace trace) {
  return start(process, Knows::kWholeJob, std::move(state), std::move(trace));
}

Result<std::unique_ptr<Observer>> Observer::of_process(const Process& process, State state) {
  return start(process, Knows::kItself, std::move(state), nullptr);
}

Result<std::unique_ptr<Observer>> Observer::start(const Process& process, Knows knows, State state, Trace trace) {
  const job::LaunchFlags& flags = process.flags.launch;
  if (flags.metrics_addr.empty()) return nullptr;
  std::unique_ptr<Observer> observer(new Observer(process, knows, std::move(state), std::move(trace)));
  DT_TRY_VOID(observer->serve(flags));
  observer->facts_.add_earlier_log(observer->tail_.take());
  observer->thread_ = std::thread([one = observer.get()] { one->watch(); });
  return observer;
}

std::vector<HttpRoute> Observer::routes() {
  std::vector<HttpRoute> all = {metrics_route(facts_, "application/openmetrics-text",
                                              observe::MetricsForm::kOpenMetrics, observe::kOpenMetricsType),
                                metrics_route(facts_, "", observe::MetricsForm::kPrometheus, observe::kPrometheusType),
                                {.path = "/targets", .answer = [this]() -> HttpAnswer {
                                   return {"application/json", facts_.targets()};
                                 }}};
  if (knows_ == Knows::kItself) return all;
  all.push_back({.path = "/", .kind = HttpRoute::Kind::kPage, .answer = []() -> HttpAnswer {
                   return {kHtml, std::string(observe::live_page())};
                 }});
  all.push_back({.path = "/trace", .kind = HttpRoute::Kind::kAction, .answer = [this]() -> HttpAnswer {
                   return answer_of(trace_());
                 }});
  all.push_back(
      {.path = "/events", .kind = HttpRoute::Kind::kStream, .open_stream = [this] { return facts_.follow(); }});
  return all;
}

Result<> Observer::serve(const job::LaunchFlags& flags) {
  DT_TRY(const net::Endpoint where, observed_at(flags.metrics_addr));
  DT_TRY(const std::string token, allowed_token(where, flags));
  const bool is_local = job::is_loopback(where.host), has_page = knows_ == Knows::kWholeJob;
  net::HttpOptions options{.flag = kFlag, .where = where};
  options.only_local_names = is_local;
  options.streams_max = has_page ? options.streams_max : 0;
  if (!is_local && !flags.insecure) {
    options.accepts_token = [token](std::string_view given) { return job::same_token(given, token); };
  }
  if (!is_local) {
    DT_TRY(options.certificate, certificate_of(flags));
  }
  const bool is_encrypted = options.certificate.has_value();
  DT_TRY(server_, net::HttpServer::start(std::move(options), routes(), log_));
  const std::string address = net::to_text({host_for_others(where, flags), server_->port()});
  registry_.set(telemetry::Metric::kEndpoint, 1, (is_encrypted ? "https://" : "") + address);
  const auto url = [&](const char* path) { return url_of(where, server_->port(), is_encrypted, path); };
  // The URL is only a verbose log line, because a job may have a hundred processes that have no page; /targets lists
  // their URLs.
  if (!has_page) {
    log_.verbose(1, "metrics are served at {}", url("/metrics"));
    return {};
  }
  log_.info("metrics are served at {}", url("/metrics"));
  log_.info("the live page is at {}", url("/"));
  return {};
}

Observer::~Observer() {
  stop();
}

void Observer::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    end_ = true;
    ended_.notify_all();
  }
  thread_.join();
}

void Observer::look() {
  facts_.update(state_());
  facts_.add_log(tail_.take());
}

// Runs the observer's thread. No training depends on it, so an error ends only the display and not the process.
void Observer::watch() {
  name_thread("observe");
  bool is_over = false;
  while (!is_over) {
    const Result<> seen = catching([this]() -> Result<> {
      look();
      return {};
    });
    if (!seen) return log_.warn("the metrics and the live page are no longer updated: {}", seen.error().line());
    const MutexLock lock(mutex_);
    is_over = ended_.wait_for(mutex_, kInterval, [this]() DT_REQUIRES(mutex_) { return end_; });
  }
}

void Observer::end(const Result<>& outcome) {
  stop();
  look();
  facts_.end(outcome.has_value(), outcome ? "the job has ended" : outcome.error().line());
}

observe::JobState job_state(const job::Progress& progress, std::chrono::steady_clock::time_point started,
                            std::vector<observe::ProcessState> processes) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
  return {.seconds = passed.count(),
          .step = progress.step,
          .steps = progress.steps,
          .epoch = job::epoch_under_way(progress),
          .epochs = progress.epochs,
          .samples_per_s = progress.samples_per_s,
          .eta_s = progress.eta_s,
          .processes = std::move(processes)};
}

observe::ProcessState own_state(telemetry::Registry& registry, const Waits& waits, const std::string& role,
                                uint32_t rank) {
  observe::ProcessState state{
      .source = {.role = role, .rank = rank, .host = host_name(), .snapshot = registry.snapshot()}};
  if (std::optional<OpenWait> wait = waits.foremost()) {
    state.wait = std::move(wait->name);
    state.wait_s = wait->seconds;
  }
  return state;
}

}  // namespace dtrain::role
