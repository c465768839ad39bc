#include "rpc/own_report.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/thread.h"
#include "rpc/scheduler_messages.h"
#include "scheduler.pb.h"

namespace dtrain::rpc {

namespace {

constexpr size_t kWaitNameMax = 200;

}  // namespace

OwnReport::OwnReport(telemetry::Registry* registry, telemetry::Tracer* tracer, Waits& waits)
    : registry_(registry),
      tracer_(tracer),
      waits_(waits),
      newest_(std::make_unique<proto::Heartbeat>()),
      newest_at_(Clock::now()) {}

OwnReport::~OwnReport() {
  end();
}

void OwnReport::start(std::function<void(Error)> failed) {
  thread_ = std::thread([this, failed = std::move(failed)] {
    name_thread("report");
    if (auto outcome = catching([this] { return prepare_until_end(); }, "preparing a report"); !outcome) {
      failed(std::move(outcome.error()));
    }
  });
}

void OwnReport::end() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    wanted_changed_.notify_all();
  }
  const Waits::Wait wait(waits_, [] { return std::string("the last report on this process to be prepared"); });
  if (thread_.joinable()) thread_.join();
}

Result<> OwnReport::prepare_until_end() {
  uint64_t closed = 0;  // number of the newest trace that was closed
  while (true) {
    uint64_t wanted = 0, over = 0;
    {
      const MutexLock lock(mutex_);
      wanted_changed_.wait(mutex_,
                           [&]() DT_REQUIRES(mutex_) { return ending_ || wanted_ > prepared_ || over_ > closed; });
      if (ending_) return {};
      wanted = wanted_;
      over = over_;
    }
    if (tracer_ != nullptr && over > closed) tracer_->close(over);
    closed = over;
    proto::Heartbeat report = prepare();
    const MutexLock lock(mutex_);
    *newest_ = std::move(report);
    newest_at_ = Clock::now();
    prepared_ = wanted;
    prepared_changed_.notify_all();
  }
}

proto::Heartbeat OwnReport::renew(std::chrono::milliseconds patience) {
  const MutexLock lock(mutex_);
  const uint64_t asked = ++wanted_;
  wanted_changed_.notify_all();
  prepared_changed_.wait_for(mutex_, patience, [&]() DT_REQUIRES(mutex_) { return ending_ || prepared_ >= asked; });
  proto::Heartbeat report = *newest_;
  const double age = std::chrono::duration<double>(Clock::now() - newest_at_).count();
  report.set_report_age_s(age);
  if (!report.wait().empty()) report.set_wait_s(report.wait_s() + age);
  return report;
}

void OwnReport::close_trace(uint64_t number) {
  const MutexLock lock(mutex_);
  over_ = std::max(over_, number);
  wanted_changed_.notify_all();
}

proto::Heartbeat OwnReport::prepare() const {
  proto::Heartbeat report;
  if (const std::optional<OpenWait> wait = waits_.foremost()) {
    report.set_wait(wait->name.substr(0, kWaitNameMax));
    report.set_wait_s(wait->seconds);
    report.set_is_own_work(wait->what == WaitFor::kOwnWork);
  }
  if (registry_ != nullptr) {
    registry_->set(telemetry::Metric::kOpenWaitSeconds, report.wait_s());
    add_metrics(registry_->snapshot(), report);
  }
  if (tracer_ != nullptr) report.set_traced(tracer_->written());
  return report;
}

}  // namespace dtrain::rpc
