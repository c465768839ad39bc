// DeviceExecutor::time_calls: a step as individual calls, with an event between every two of them.
#include "cuda/executor/timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/executor/device_executor.h"
#include "cuda/kernels/layout.h"

namespace dtrain::cuda {

namespace {

// Events in a stream, and the milliseconds between them.
class Marks {
 public:
  void set(cudaStream_t stream) {
    if (next_ == events_.size()) events_.push_back(make_event(true));
    DT_CUDA(cudaEventRecord(events_[next_++].get(), stream));
  }
  // Returns the times from each mark to the next. The stream must have passed all marks.
  std::vector<float> take() {
    std::vector<float> ms(next_ == 0 ? 0 : next_ - 1);
    for (size_t i = 0; i < ms.size(); i++) {
      DT_CUDA(cudaEventElapsedTime(&ms[i], events_[i].get(), events_[i + 1].get()));
    }
    next_ = 0;
    return ms;
  }

 private:
  std::vector<CudaEvent> events_;
  size_t next_ = 0;
};

double median(std::vector<float> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

Result<std::vector<TimedCall>> DeviceExecutor::time_calls(const exec::Batch& batch, const exec::GradientReady& ready,
                                                          int steps) {
  DT_CHECK(training() && steps > 0, "only a training step can be timed");
  Marks marks;
  std::vector<std::vector<float>> times;  // indexed by call, then step
  for (int step = 0; step < steps; step++) {
    DT_TRY_VOID(forward(batch, exec::no_wait));
    is_staged_ = false;
    begin_pass();
    take_batch();
    marks.set(compute_.get());
    DT_TRY_VOID(queue_marked(ready, [&] { marks.set(compute_.get()); }));
    end_pass();
    show_pass();
    finish_results();
    const std::vector<float> ms = marks.take();
    times.resize(ms.size());
    for (size_t call = 0; call < ms.size(); call++) times[call].push_back(ms[call]);
  }
  std::vector<TimedCall> calls = program_->calls();
  calls.insert(calls.begin(), {.name = "weights in the layout of the convolutions"});
  calls.push_back({.name = "update", .backward = true});
  DT_CHECK(calls.size() == times.size(), "{} calls, {} times", calls.size(), times.size());
  for (size_t call = 0; call < calls.size(); call++) calls[call].ms = median(times[call]);
  return calls;
}

// Queues the work of queue_forward and queue_backward in one stream, and calls `mark` after the weights, after
// each call and after the update.
Result<> DeviceExecutor::queue_marked(const exec::GradientReady& ready, const std::function<void()>& mark) {
  for (const DeviceTable<WeightTensor>& table : upload_tables_) {
    if (!table.empty()) store_weights(table.table(), compute_.get());
  }
  mark();
  for (const std::vector<Part>* parts : {&program_->forward(), &program_->backward()}) {
    for (const Part& part : *parts) {
      for (const Call& call : part.segment.calls()) {
        call(compute_.get());
        mark();
      }
    }
  }
  follow(compute_.get(), store_->get());
  for (size_t bucket = bucket_count(); bucket-- > 0;) DT_TRY_VOID(ready(bucket));
  follow(store_->get(), compute_.get());
  mark();
  return {};
}

}  // namespace dtrain::cuda
