// Tests dtrain's use of NCCL with a fake of a few lines in its place: which calls are made, and what happens if ranks
// do not join, links break or an operation is canceled. The tests with NCCL itself are in nccl_collective_test.cc.
#include <nccl.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "cuda/nccl_collective.h"
#include "cuda/runtime/device_error.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/patience.h"

namespace {

// The fake's state, reset by each test.
struct Fake {
  std::mutex mutex;
  std::vector<std::string> calls;
  std::atomic<ncclResult_t> joining{ncclSuccess};  // the state after joining began
  std::atomic<ncclResult_t> state{ncclSuccess};    // the state after an operation
  std::atomic<ncclResult_t> enqueue{ncclSuccess};  // what an operation returns
  std::atomic<int> aborts{0}, destroyed{0}, queries{0};
  std::atomic<ncclResult_t> finalizing{ncclSuccess};  // the state after finalizing began
  std::atomic<int> graphs{0};  // graphs that contain the group's work; NCCL's calls that end a group block until 0
  std::atomic<cudaError_t> event{cudaSuccess};  // state of the event that a store's stream waits for
  const float* base = nullptr;

  void note(std::string call) {
    const std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
  }
};
Fake* fake = nullptr;

std::string at(const void* pointer) {
  return std::to_string(static_cast<const float*>(pointer) - fake->base);
}

}  // namespace

extern "C" {
struct ncclComm {
  bool joined = false, is_finalizing = false;
};
ncclResult_t ncclGetUniqueId(ncclUniqueId*) {
  return ncclSuccess;
}
ncclResult_t ncclGetVersion(int* version) {
  *version = 22703;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "what NCCL calls it";
}
const char* ncclGetLastError(ncclComm_t) {
  return "the reason";
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t* config) {
  fake->note(config->blocking == 0 ? "join" : "join and block");
  *comm = new ncclComm;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->joined ? fake->state : fake->joining;
  if (comm->is_finalizing) *state = fake->graphs == 0 ? fake->finalizing.load() : ncclInProgress;
  if (*state == ncclSuccess) comm->joined = true;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->is_finalizing = true;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  dtrain::test::await([] { return fake->graphs == 0; });
  fake->destroyed++;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  dtrain::test::await([] { return fake->graphs == 0; });
  fake->aborts++;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  return fake->note("("), ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return fake->note(")"), fake->enqueue.load();
}
ncclResult_t ncclAllReduce(const void*, void* to, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) {
  return fake->note("all_reduce " + at(to) + "+" + std::to_string(count)), fake->enqueue.load();
}
ncclResult_t ncclReduceScatter(const void*, void* to, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t) {
  return fake->note("reduce_scatter " + at(to) + "+" + std::to_string(count)), fake->enqueue.load();
}
ncclResult_t ncclAllGather(const void* from, void*, size_t count, ncclDataType_t, ncclComm_t, cudaStream_t) {
  return fake->note("all_gather " + at(from) + "+" + std::to_string(count)), fake->enqueue.load();
}
ncclResult_t ncclReduce(const void*, void* to, size_t count, ncclDataType_t, ncclRedOp_t, int root, ncclComm_t,
                        cudaStream_t) {
  return fake->note("reduce " + at(to) + "+" + std::to_string(count) + " to " + std::to_string(root)),
         fake->enqueue.load();
}
ncclResult_t ncclBroadcast(const void*, void* to, size_t count, ncclDataType_t, int root, ncclComm_t, cudaStream_t) {
  return fake->note("broadcast " + at(to) + "+" + std::to_string(count) + " of " + std::to_string(root)),
         fake->enqueue.load();
}
const char* cudaGetErrorString(cudaError_t) {
  return "what CUDA calls it";
}
const char* cudaGetErrorName(cudaError_t) {
  return "its name";
}
cudaError_t cudaGetDevice(int* device) {
  return *device = 0, cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int*) {
  return cudaErrorNotSupported;
}
cudaError_t cudaRuntimeGetVersion(int*) {
  return cudaErrorNotSupported;
}
cudaError_t cudaMemGetInfo(size_t*, size_t*) {
  return cudaErrorNotSupported;
}
// Also needed by StoreStream: a stream in which nothing is queued.
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return fake->note("time"), cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 0;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return fake->queries++, fake->event.load();
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return fake->note("wait"), fake->event.load();
}
}

namespace dtrain::cuda {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using Calls = std::vector<std::string>;

namespace {

// One rank of a group that the fake makes.
struct Setting {
  Fake own;
  std::vector<float> values = std::vector<float>(10);
  NcclRank rank{.rank = 1, .size = 3};
  std::string id = std::string(NCCL_UNIQUE_ID_BYTES, 'i');

  Setting() {
    fake = &own;
    own.base = values.data();
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

  Result<std::unique_ptr<comm::Collective>> join(const std::shared_ptr<StoreStream>& store) {
    rank.store = store;
    return join_nccl(rank, id);
  }
  Result<std::unique_ptr<comm::Collective>> join() { return join(std::make_shared<StoreStream>(0)); }
  std::unique_ptr<comm::Collective> joined() { return test::must(join()); }
  std::unique_ptr<comm::Collective> joined(const std::shared_ptr<StoreStream>& store) {
    return test::must(join(store));
  }
  Calls calls_of(const auto& operation) {
    own.calls.clear();
    test::must(operation());
    return own.calls;
  }
};

}  // namespace

TEST_CASE("parts of equal size use NCCL's own operation, others one operation for each owner in a group",
          "[cuda][nccl]") {
  Setting s;
  const auto group = s.joined();
  const std::span<float> ten(s.values), nine = ten.first(9), four = ten.first(4);
  CHECK(s.own.calls == Calls{"join"});
  CHECK(s.calls_of([&] { return group->reduce_scatter(nine); }) == Calls{"reduce_scatter 3+3"});
  CHECK(s.calls_of([&] { return group->all_gather(nine); }) == Calls{"all_gather 3+3"});
  CHECK(s.calls_of([&] { return group->reduce_scatter(ten); }) ==
        Calls{"(", "reduce 0+4 to 0", "reduce 4+4 to 1", "reduce 8+2 to 2", ")"});
  CHECK(s.calls_of([&] { return group->all_gather(ten); }) ==
        Calls{"(", "broadcast 0+4 of 0", "broadcast 4+4 of 1", "broadcast 8+2 of 2", ")"});
  CHECK(s.calls_of([&] { return group->all_gather(four); }) ==
        Calls{"(", "broadcast 0+2 of 0", "broadcast 2+2 of 1", ")"});
  CHECK(s.calls_of([&] { return group->all_reduce(ten); }) == Calls{"all_reduce 0+10"});
  CHECK(s.calls_of([&] { return group->reduce(ten, 2); }) == Calls{"reduce 0+10 to 2"});
  CHECK(s.calls_of([&] { return group->broadcast(ten, 2); }) == Calls{"broadcast 0+10 of 2"});
  CHECK(s.calls_of([&] { return group->all_reduce({}); }).empty());
}

TEST_CASE("missing ranks end the join within its limit", "[cuda][nccl]") {
  Setting s;
  s.own.joining = ncclInProgress;
  s.rank.join_limit = milliseconds(5);
  const auto group = s.join();
  REQUIRE_FALSE(group);
  CHECK(group.error().code == Code::kStartup);
  CHECK_THAT(group.error().message, Contains("rank 1 of 3") && Contains("within 5 ms") && Contains("the reason"));
  CHECK(s.own.aborts == 1);
}

TEST_CASE("the error of a failed join depends on its cause", "[cuda][nccl]") {
  Setting s;
  const auto code_after = [&](ncclResult_t result) {
    s.own.joining = result;
    const auto group = s.join();
    return group ? Code::kInternal : group.error().code;
  };
  CHECK(code_after(ncclSystemError) == Code::kStartup);
  CHECK(code_after(ncclRemoteError) == Code::kStartup);
  CHECK(code_after(ncclUnhandledCudaError) == Code::kDevice);
  CHECK(code_after(ncclInvalidUsage) == Code::kDevice);
  CHECK(s.own.aborts == 4);
}

TEST_CASE("an operation that exceeds its limit is a lost peer, and so are all later ones", "[cuda][nccl]") {
  Setting s;
  s.rank.operation_limit = milliseconds(5);
  auto group = s.joined();
  s.own.enqueue = ncclInProgress;
  s.own.state = ncclInProgress;
  for (int i = 0; i < 2; i++) {
    const Result<> done = group->all_reduce(s.values);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == Code::kPeerLost);
    CHECK_THAT(done.error().message, Contains("rank 1 of 3: all_reduce of 10 values") && Contains("within 5 ms"));
  }
  CHECK_FALSE(group->all_reduce({}));
  CHECK(s.own.aborts == 0);
  group.reset();
  CHECK(s.own.aborts == 1);
}

TEST_CASE("a peer's failure is an Error, a device's failure is thrown", "[cuda][nccl]") {
  for (const ncclResult_t result : {ncclRemoteError, ncclSystemError}) {
    Setting s;
    const auto group = s.joined();
    s.own.enqueue = ncclInProgress;
    s.own.state = result;
    const Result<> done = group->all_reduce(s.values);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == Code::kPeerLost);
    CHECK_THAT(done.error().message, Contains("the reason (likely: "));
  }
  for (const ncclResult_t result : {ncclUnhandledCudaError, ncclInvalidArgument, ncclInternalError}) {
    Setting s;
    const auto group = s.joined();
    s.own.enqueue = result;
    CHECK_THROWS_AS(group->all_reduce(s.values), DeviceError);
    CHECK(group->all_reduce(s.values).error().code == Code::kDevice);
  }
}

// The streams of both ranks never complete, so only the cancellation of the first rank ends the second one's wait.
TEST_CASE("cancel ends the waits of all ranks of the process, with its error", "[cuda][nccl]") {
  Setting s;
  s.rank.process = make_nccl_process();
  s.rank.operation_limit = std::chrono::seconds(10);  // the limit in case cancel fails
  auto first = s.joined();
  const auto store = std::make_shared<StoreStream>(0);
  auto second = s.joined(store);
  s.own.event = cudaErrorNotReady;
  Result<> waited;
  std::thread waits([&] { waited = store->wait(nullptr); });
  dtrain::test::await([&] { return s.own.queries != 0; });
  first->cancel({Code::kPreempted, "stop", {}});
  first->cancel({Code::kPeerLost, "later", {}});
  waits.join();
  REQUIRE_FALSE(waited);
  CHECK(waited.error().message == "stop");
  CHECK(first->broadcast(s.values, 0).error().message == "stop");
  CHECK(s.join().error().message == "stop");
  CHECK(s.own.aborts == 1);  // by the thread that waited; cancel only records the error
  first.reset();
  second.reset();
  s.rank.process.reset();
  CHECK(s.own.aborts == 2);
}

TEST_CASE("after an error of one rank, all ranks of the process return it and are aborted", "[cuda][nccl]") {
  Setting s;
  s.rank.process = make_nccl_process();
  auto first = s.joined(), second = s.joined();
  s.own.enqueue = ncclInProgress;
  s.own.state = ncclRemoteError;
  const Result<> lost = first->all_reduce(s.values);
  REQUIRE_FALSE(lost);
  s.own.enqueue = ncclSuccess;
  s.own.state = ncclSuccess;
  const Result<> other = second->all_reduce(s.values);
  REQUIRE_FALSE(other);
  CHECK(other.error().message == lost.error().message);
  first.reset();
  second.reset();
  s.rank.process.reset();
  CHECK(s.own.aborts == 2);
  CHECK(s.own.destroyed == 0);
}

TEST_CASE("an operation does not wait for the stream", "[cuda][nccl]") {
  Setting s;
  s.own.event = cudaErrorNotReady;
  const auto group = s.joined();
  CHECK(group->all_reduce(s.values));
  CHECK(s.own.queries == 0);
}

TEST_CASE("operations of a graph are not queued a second time outside it", "[cuda][nccl]") {
  Setting s;
  const auto store = std::make_shared<StoreStream>(0);
  const auto group = s.joined(store);
  const std::span<float> nine = std::span(s.values).first(9);
  const auto all = [&]() -> Result<> {
    DT_TRY_VOID(group->all_reduce(nine));
    DT_TRY_VOID(group->reduce_scatter(nine));
    DT_TRY_VOID(group->all_gather(nine));
    DT_TRY_VOID(group->reduce(nine, 0));
    return group->broadcast(nine, 0);
  };
  CHECK(s.calls_of(all).size() == 5);
  {
    const StoreStream::Replay replay(*store);
    CHECK(s.calls_of(all).empty());
    s.own.state = ncclRemoteError;  // NCCL reports this even though nothing is queued
    CHECK(all().error().code == Code::kPeerLost);
  }
  CHECK_FALSE(all());
}

TEST_CASE("while the device's work is recorded, so are the operations of a group", "[cuda][nccl]") {
  Setting s;
  telemetry::Timeline timeline;
  DeviceSpans spans(&timeline, 2);
  const auto store = std::make_shared<StoreStream>(2);
  const auto group = s.joined(store);
  store->record_on(&spans);
  const auto sum = [&] { return group->all_reduce(s.values); };
  CHECK(s.calls_of(sum) == Calls{"all_reduce 0+10"});
  timeline.begin();
  spans.begin_step();
  CHECK(s.calls_of(sum) == Calls{"time", "all_reduce 0+10", "time"});
  spans.collect(nullptr);
  const std::vector<telemetry::TimelineRow> lanes = timeline.rows();
  REQUIRE(lanes.size() == 1);
  CHECK(lanes[0].thread == "GPU 2: sums and updates");
  REQUIRE(lanes[0].events.size() == 1);
  CHECK(std::string(lanes[0].events[0].name) == "all_reduce");
  CHECK(lanes[0].events[0].arguments[0].value == 40);
}

// The host waits for the device, which waits for a peer.
TEST_CASE("the wait for a store's stream ends with its group", "[cuda][nccl]") {
  const auto waited = [](Setting& s, const auto& break_off) {
    const auto store = std::make_shared<StoreStream>(0);
    const auto group = s.joined(store);
    s.own.event = cudaErrorNotReady;
    std::thread other([&] {
      dtrain::test::await([&] { return s.own.queries != 0; });
      break_off(*group);
    });
    const Result<> result = store->wait(nullptr);
    other.join();
    CHECK(s.own.aborts == 1);
    return result ? Error{Code::kInternal, "it came", {}} : result.error();
  };
  Setting late;
  late.rank.operation_limit = milliseconds(5);
  const Error error = waited(late, [](comm::Collective&) {});
  CHECK(error.code == Code::kPeerLost);
  CHECK_THAT(error.message, Contains("rank 1 of 3") && Contains("within 5 ms"));

  Setting lost;
  CHECK(waited(lost, [&](comm::Collective&) { lost.own.state = ncclRemoteError; }).code == Code::kPeerLost);

  Setting cancelled;
  const auto cancel = [](comm::Collective& group) { group.cancel({Code::kPreempted, "stop", {}}); };
  CHECK(waited(cancelled, cancel).message == "stop");

  Setting broken;
  const auto store = std::make_shared<StoreStream>(0);
  const auto group = broken.joined(store);
  broken.own.event = cudaErrorIllegalAddress;
  CHECK_THROWS_AS(store->wait(nullptr), DeviceError);
}

TEST_CASE("without a group the host just waits for a store's stream", "[cuda][nccl]") {
  Setting s;
  const auto store = std::make_shared<StoreStream>(0);
  store->set_limits({.failed_after = milliseconds(1)});
  CHECK(store->wait(nullptr));
  s.own.event = cudaErrorNotReady;
  CHECK_THROWS_AS(store->wait(nullptr), DeviceError);
  forget_hanging();
}

TEST_CASE("a group that ends well is finalized and destroyed, or aborted if the others do not end", "[cuda][nccl]") {
  {
    Setting s;
    s.joined().reset();
    CHECK(s.own.destroyed == 1);
    CHECK(s.own.aborts == 0);
  }
  for (const ncclResult_t state : {ncclRemoteError, ncclInProgress}) {
    Setting s;
    s.own.finalizing = state;
    s.rank.end_limit = milliseconds(5);
    s.joined().reset();
    CHECK(s.own.destroyed == 0);
    CHECK(s.own.aborts == 1);
  }
}

// NCCL's calls that end a group block while a graph contains the group's work.
TEST_CASE("the graphs of a group are dropped before it ends, and a cancel does not wait for them", "[cuda][nccl]") {
  Setting s;
  const auto store = std::make_shared<StoreStream>(0);
  store->set_drop_graphs([&] { s.own.graphs = 0; });
  auto group = s.joined(store);
  SECTION("at a good end") {
    s.own.graphs = 1;
    group.reset();
    CHECK(s.own.destroyed == 1);
  }
  SECTION("when a peer is lost while the host waits for the device") {
    s.own.graphs = 1;
    s.own.event = cudaErrorNotReady;
    std::thread other([&] {
      dtrain::test::await([&] { return s.own.queries != 0; });
      group->cancel({Code::kPeerLost, "worker 1 was lost", {}});
    });
    const Result<> waited = store->wait(nullptr);
    other.join();
    REQUIRE_FALSE(waited);
    CHECK(waited.error().message == "worker 1 was lost");
    CHECK(s.own.aborts == 1);
  }
  SECTION("when the group is canceled between two steps") {
    s.own.graphs = 1;
    group->cancel({Code::kPreempted, "stop", {}});
    CHECK(s.own.aborts == 0);
    group.reset();
    CHECK(s.own.aborts == 1);
  }
}

}  // namespace dtrain::cuda
