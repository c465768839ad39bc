#include "bench/unary_calls.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/mutex.h"
#include "base/simd.h"
#include "rpc/status.h"
#include "tensor/buffer.h"
#include "unary.grpc.pb.h"

namespace dtrain::bench {
namespace {

DT_MULTI_ISA void subtract(const float* __restrict gradient, float* __restrict weight, size_t count) {
  for (size_t i = 0; i < count; i++) weight[i] -= gradient[i];
}

class Service final : public proto::Unary::CallbackService {
 public:
  explicit Service(size_t weight_bytes) : weights_(weight_bytes / sizeof(float)) {}

 private:
  // Concurrent calls update different parts of the weights, so no lock is needed.
  grpc::ServerUnaryReactor* Update(grpc::CallbackServerContext* context, const proto::Blob* request,
                                   proto::Blob* reply) override {
    const std::string& gradient = request->data();
    const size_t size = weights_.size() * sizeof(float);
    if (request->at() > size || gradient.size() > size - request->at()) {
      return answer(context, {grpc::OUT_OF_RANGE, "the part does not lie within the weights"});
    }
    float* weights = weights_.data() + request->at() / sizeof(float);
    subtract(reinterpret_cast<const float*>(gradient.data()), weights, gradient.size() / sizeof(float));
    reply->set_data(weights, gradient.size());
    return answer(context, grpc::Status::OK);
  }

  static grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const grpc::Status& status) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  Buffer<float> weights_;
};

class GrpcServer final : public UnaryServer {
 public:
  explicit GrpcServer(size_t weight_bytes) : service_(weight_bytes) {}
  Result<> begin(const net::Listen& where) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(to_text(net::Endpoint{where.host, where.port_first}), grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
    port_ = static_cast<uint16_t>(port);
    if (server_ == nullptr || port == 0) return fail(Code::kStartup, "cannot listen on {}", where.host);
    return {};
  }
  ~GrpcServer() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }
  uint16_t port() const override { return port_; }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  uint16_t port_ = 0;
};

// A call that sends a part of an array and receives a part of the same size.
struct Call {
  grpc::ClientContext context;
  proto::Blob request;
  proto::Blob reply;
  std::span<std::byte> back;
};

class GrpcClient final : public UnaryClient {
 public:
  explicit GrpcClient(const net::Endpoint& server) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = proto::Unary::NewStub(
        grpc::CreateCustomChannel(to_text(server), grpc::InsecureChannelCredentials(), arguments));
  }

  Result<double> exchange(std::span<const std::span<const std::byte>> arrays,
                          std::span<const std::span<std::byte>> back, size_t chunk_bytes, int window) override {
    DT_CHECK(arrays.size() == back.size(), "{} arrays are sent, but {} are received", arrays.size(), back.size());
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::unique_ptr<Call>> calls;
    uint64_t place = 0;
    for (size_t i = 0; i < arrays.size(); i++) {
      for (size_t at = 0; at < arrays[i].size(); at += chunk_bytes) {
        const size_t count = std::min(chunk_bytes, arrays[i].size() - at);
        wait_for(window);
        calls.push_back(start(place, arrays[i].subspan(at, count), back[i].subspan(at, count)));
        place += count;
      }
    }
    wait_for(1);
    if (const grpc::Status ended = status(); !ended.ok()) return tl::unexpected(rpc::from_status(ended));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  std::unique_ptr<Call> start(uint64_t place, std::span<const std::byte> bytes, std::span<std::byte> back) {
    auto call = std::make_unique<Call>();
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    call->request.set_data(bytes.data(), bytes.size());
    call->request.set_at(place);
    call->back = back;
    {
      const MutexLock lock(mutex_);
      open_++;
    }
    const auto done = [this, raw = call.get()](const grpc::Status& status) { finish(*raw, status); };
    stub_->async()->Update(&call->context, &call->request, &call->reply, done);
    return call;
  }

  void finish(Call& call, grpc::Status status) {
    if (status.ok() && call.reply.data().size() != call.back.size())
      status = {grpc::INTERNAL, "the size of the reply differs from that of the request"};
    if (status.ok()) std::memcpy(call.back.data(), call.reply.data().data(), call.back.size());
    call.request.clear_data();
    call.reply.Clear();
    const MutexLock lock(mutex_);
    if (!status.ok()) status_ = status;
    open_--;
    changed_.notify_all();
  }

  // Waits until fewer than `window` calls are open. The wait ends in any case, because each call has a deadline.
  void wait_for(int window) {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return open_ < window; });
  }

  grpc::Status status() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return status_;
  }

  std::unique_ptr<proto::Unary::Stub> stub_;
  Mutex mutex_;
  ConditionVariable changed_;
  int open_ DT_GUARDED_BY(mutex_) = 0;
  grpc::Status status_ DT_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<UnaryServer>> UnaryServer::start(const net::Listen& listen, size_t weight_bytes) {
  auto server = std::make_unique<GrpcServer>(weight_bytes);
  DT_TRY_VOID(server->begin(listen), "starting the server of unary calls");
  return std::unique_ptr<UnaryServer>(std::move(server));
}

std::unique_ptr<UnaryClient> UnaryClient::create(const net::Endpoint& server) {
  return std::make_unique<GrpcClient>(server);
}

}  // namespace dtrain::bench
