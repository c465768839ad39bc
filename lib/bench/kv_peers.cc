#include "bench/kv_peers.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/mutex.h"
#include "bench/unary_calls.h"
#include "job/flags/flags.h"
#include "job/process/open_files.h"
#include "kvstore/server/shard.h"
#include "kvstore/worker/dist_store.h"
#include "rpc/data_client.h"
#include "rpc/data_server.h"

namespace dtrain::bench {
namespace {

constexpr std::chrono::seconds kConnectLimit{30};
const char* const kBuild = "bench";

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct PipeEnds {
  Fd read;
  Fd write;
};
Result<PipeEnds> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(Code::kStartup, "pipe: {}", std::strerror(errno));
  return PipeEnds{Fd(ends[0]), Fd(ends[1])};
}

// The clock ticks in user mode and in the kernel are the 14th and 15th field of the file `stat`. The second field is a
// name in parentheses, which may contain spaces.
std::optional<KvUse> use_of_process(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  const Result<std::string> status = read_file(fmt::format("/proc/{}/status", pid));
  if (!stat || !status) return std::nullopt;
  std::istringstream fields(stat->substr(stat->rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 14; field++) fields >> skipped;
  double user = 0, kernel = 0;
  fields >> user >> kernel;
  const std::string_view name = "VmHWM:";
  const size_t at = status->find(name);
  if (!fields || at == std::string::npos) return std::nullopt;
  return KvUse{.cpu_s = (user + kernel) / static_cast<double>(sysconf(_SC_CLK_TCK)),
               .peak_bytes = std::strtoull(status->c_str() + at + name.size(), nullptr, 10) << 10};
}

// A child process. It ends when its pipe is closed, which the destructor does, and which also happens if this process
// dies.
class Process final : public KvPeer {
 public:
  Process(pid_t pid, Fd life) : pid_(pid), life_(std::make_unique<Fd>(std::move(life))) {}
  ~Process() override {
    life_.reset();
    waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] std::optional<KvUse> use() const override { return use_of_process(pid_); }

 private:
  pid_t pid_;
  std::unique_ptr<Fd> life_;
};

// Runs the work in the forked child. Does not return, because the child must not execute the caller's code.
[[noreturn]] void run_child(const KvWork& work, int life, int news) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto ready = [news](uint16_t number) { (void)!write(news, &number, sizeof(number)); };
  const auto stopped = [life] {
    char byte = 0;
    while (read(life, &byte, 1) > 0) {
    }
  };
  const Result<> outcome = catching([&] { return work(ready, stopped); });
  if (!outcome) std::fputs((outcome.error().text() + "\n").c_str(), stderr);
  _exit(outcome ? 0 : 1);
}

Result<KvStarted> start_process(const KvWork& work) {
  DT_TRY(PipeEnds life, make_pipe());
  DT_TRY(PipeEnds news, make_pipe());
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return fail(Code::kStartup, "fork: {}", std::strerror(errno));
  if (pid == 0) {
    { const Fd other = std::move(life.write); }
    run_child(work, life.read.get(), news.write.get());
  }
  auto peer = std::make_unique<Process>(pid, std::move(life.write));
  { const Fd other = std::move(news.write); }
  uint16_t number = 0;
  if (read(news.read.get(), &number, sizeof(number)) != sizeof(number)) {
    return fail(Code::kStartup, "a process of the bench ended before it was ready");
  }
  return KvStarted{std::move(peer), number};
}

class Thread final : public KvPeer {
 public:
  explicit Thread(KvWork work) {
    thread_ = std::thread([this, work = std::move(work)] {
      bool is_ready = false;
      const auto ready = [&](uint16_t number) {
        is_ready = true;
        number_.set_value(number);
      };
      const Result<> outcome = catching([&] { return work(ready, [this] { stop_.get_future().wait(); }); });
      if (!outcome) std::fputs((outcome.error().text() + "\n").c_str(), stderr);
      if (!is_ready) number_.set_value(0);
    });
  }
  ~Thread() override {
    stop_.set_value();
    thread_.join();
  }
  uint16_t number() { return number_.get_future().get(); }

 private:
  std::promise<void> stop_;
  std::promise<uint16_t> number_;
  std::thread thread_;
};

class Worker final : public KvWorker {
 public:
  Worker(const KvPlan& plan, uint32_t worker) : plan_(plan), arrays_(plan, worker), rank_(worker) {}
  ~Worker() override { pipes_.reset(); }  // destroys the pipes before the store and the memory, which they use

  Result<> begin(const std::vector<uint16_t>& ports) {
    kvstore::DistStoreOptions options;
    options.rank = rank_;
    options.incarnation = plan_.incarnations[rank_];
    options.placement = plan_.placement;
    options.bucket_begin = plan_.bucket_begin;
    options.rule = plan_.rule;
    DT_TRY(store_, kvstore::DistStore::create(std::move(options), waits_));
    rpc::DataClientOptions client;
    for (const uint16_t port : ports) client.servers.push_back(fmt::format("127.0.0.1:{}", port));
    client.rank = rank_;
    client.incarnation = plan_.incarnations[rank_];
    client.security.build_id = kBuild;
    DT_TRY(pipes_, rpc::DataClient::create(std::move(client), *store_, waits_, Log::silent()));
    pipes_->on_failure([this](const Error& error) { store_->cancel(error); });
    DT_TRY_VOID(pipes_->connect(kConnectLimit));
    store_->attach(pipes_->pipes());
    return store_->initialize({&arrays_.view(), 1}, {});
  }

  Result<> exchange(uint64_t step) override {
    for (size_t bucket = plan_.small_bucket(); bucket-- > 0;) DT_TRY_VOID(store_->gradient_ready(bucket, step, 1));
    for (size_t bucket = 0; bucket < plan_.small_bucket(); bucket++) DT_TRY_VOID(store_->wait_for_weights(bucket));
    return {};
  }
  Result<> exchange_small(uint64_t step) override {
    DT_TRY_VOID(store_->gradient_ready(plan_.small_bucket(), step, 1));
    return store_->wait_for_weights(plan_.small_bucket());
  }
  const ParameterView& view() const override { return arrays_.view(); }

 private:
  const KvPlan& plan_;
  Waits waits_;
  KvArrays arrays_;
  uint32_t rank_;
  std::unique_ptr<kvstore::DistStore> store_;
  std::unique_ptr<rpc::DataClient> pipes_;
};

// Keeps the first error among those of several threads.
class FirstFailure {
 public:
  void set(const Error& error) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = error;
  }
  [[nodiscard]] Result<> result() const {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    return {};
  }

 private:
  mutable Mutex mutex_;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
};

}  // namespace

Result<KvStarted> start_peer(bool process, KvWork work) {
  if (process) return start_process(work);
  auto thread = std::make_unique<Thread>(std::move(work));
  const uint16_t number = thread->number();
  if (number == 0) return fail(Code::kStartup, "a thread of the bench ended before it was ready");
  return KvStarted{std::move(thread), number};
}

bool is_single_threaded() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  return !error && std::distance(begin(tasks), end(tasks)) == 1;
}

KvWork serve_slices(const KvPlan& plan, uint32_t server) {
  return [&plan, server](const auto& ready, const auto& stopped) -> Result<> {
    kvstore::ShardOptions options;
    options.server = server;
    options.placement = plan.placement;
    for (const ParameterKind kind : plan.kinds) options.parameters.push_back(optim::multipliers_of(kind));
    options.rule = plan.rule;
    options.policy = sync::bsp(static_cast<uint32_t>(plan.incarnations.size()));
    options.threads = plan.shard_threads;
    FirstFailure failure;
    const auto fail_with = [&failure](const Error& error) { failure.set(error); };
    options.on_failure = fail_with;
    DT_TRY(const std::unique_ptr<kvstore::Shard> shard, kvstore::Shard::create(std::move(options)));
    Waits waits;
    DT_TRY(const std::unique_ptr<rpc::DataServer> listener,
           rpc::DataServer::start({.listen = {},
                                   .security = {.token = {}, .build_id = kBuild, .tls = {}},
                                   .unread_limit = job::WireFlags{}.heartbeat_timeout,
                                   .streams = plan.incarnations.size() * uint64_t{job::kConnectionsPerServer}},
                                  waits, Log::silent()));
    listener->serve(plan.incarnations, *shard, fail_with);
    ready(listener->port());
    stopped();
    listener->close();
    return failure.result();
  };
}

KvWork serve_baseline(const KvPlan& plan) {
  return [&plan](const auto& ready, const auto& stopped) -> Result<> {
    DT_TRY(const std::unique_ptr<UnaryServer> server, UnaryServer::start({}, plan.bytes()));
    ready(server->port());
    stopped();
    return {};
  };
}

Result<std::unique_ptr<KvWorker>> KvWorker::connect(const KvPlan& plan, uint32_t worker,
                                                    const std::vector<uint16_t>& server_ports) {
  auto made = std::make_unique<Worker>(plan, worker);
  DT_TRY_VOID(made->begin(server_ports), "starting worker {} of the bench", worker);
  return std::unique_ptr<KvWorker>(std::move(made));
}

KvWork work_along(const KvPlan& plan, uint32_t worker, std::vector<uint16_t> server_ports, uint64_t batches,
                  uint64_t small) {
  return [&plan, worker, ports = std::move(server_ports), batches, small](const auto& ready,
                                                                          const auto& stopped) -> Result<> {
    ready(1);
    DT_TRY(const std::unique_ptr<KvWorker> one, KvWorker::connect(plan, worker, ports));
    for (uint64_t step = 0; step < batches; step++) DT_TRY_VOID(one->exchange(step));
    for (uint64_t step = 0; step < small; step++) DT_TRY_VOID(one->exchange_small(step));
    stopped();
    return {};
  };
}

}  // namespace dtrain::bench
