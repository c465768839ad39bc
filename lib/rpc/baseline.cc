#include "rpc/baseline.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "baseline.grpc.pb.h"
#include "rpc/status.h"

namespace dtrain::rpc {
namespace {

class EchoService final : public proto::Baseline::CallbackService {
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const proto::Blob* request,
                                 proto::Blob* reply) override {
    reply->set_data(request->data());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class Server final : public BaselineServer {
 public:
  Result<> begin(const Listen& where) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(to_text(Endpoint{where.host, where.port_first}), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
    port_ = static_cast<uint16_t>(port);
    if (server_ == nullptr || port == 0) return fail(Code::kStartup, "cannot listen on {}", where.host);
    return {};
  }
  ~Server() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }
  uint16_t port() const override { return port_; }

 private:
  EchoService service_;
  std::unique_ptr<grpc::Server> server_;
  uint16_t port_ = 0;
};

// A part of an array, there and back.
struct Call {
  grpc::ClientContext context;
  proto::Blob request;
  proto::Blob reply;
  std::span<std::byte> back;
};

class Client final : public BaselineClient {
 public:
  explicit Client(const Endpoint& server) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = proto::Baseline::NewStub(
        grpc::CreateCustomChannel(to_text(server), grpc::InsecureChannelCredentials(), arguments));
  }

  Result<double> exchange(std::span<const std::span<const std::byte>> arrays,
                          std::span<const std::span<std::byte>> back, size_t chunk_bytes, int window) override {
    DT_CHECK(arrays.size() == back.size(), "{} arrays go, {} come back", arrays.size(), back.size());
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::unique_ptr<Call>> calls;
    for (size_t i = 0; i < arrays.size(); i++) {
      for (size_t at = 0; at < arrays[i].size(); at += chunk_bytes) {
        const size_t count = std::min(chunk_bytes, arrays[i].size() - at);
        wait_for(window);
        calls.push_back(start(arrays[i].subspan(at, count), back[i].subspan(at, count)));
      }
    }
    wait_for(1);
    if (!status_.ok()) return tl::unexpected(from_status(status_));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  std::unique_ptr<Call> start(std::span<const std::byte> bytes, std::span<std::byte> back) {
    auto call = std::make_unique<Call>();
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    call->request.set_data(bytes.data(), bytes.size());
    call->back = back;
    {
      const std::lock_guard lock(mutex_);
      open_++;
    }
    stub_->async()->Echo(&call->context, &call->request, &call->reply,
                         [this, raw = call.get()](const grpc::Status& status) { finish(*raw, status); });
    return call;
  }

  void finish(Call& call, grpc::Status status) {
    if (status.ok() && call.reply.data().size() != call.back.size()) status = {grpc::INTERNAL, "other bytes came back"};
    if (status.ok()) std::memcpy(call.back.data(), call.reply.data().data(), call.back.size());
    call.request.clear_data();
    call.reply.Clear();
    const std::lock_guard lock(mutex_);
    if (!status.ok()) status_ = status;
    open_--;
    changed_.notify_all();
  }

  // Until fewer than `window` calls are on their way. Each has a deadline.
  void wait_for(int window) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ < window; });
  }

  std::unique_ptr<proto::Baseline::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
  grpc::Status status_;
};

}  // namespace

Result<std::unique_ptr<BaselineServer>> BaselineServer::start(const Listen& listen) {
  auto server = std::make_unique<Server>();
  DT_TRY_VOID(server->begin(listen), "starting the baseline");
  return std::unique_ptr<BaselineServer>(std::move(server));
}

std::unique_ptr<BaselineClient> BaselineClient::create(const Endpoint& server) {
  return std::make_unique<Client>(server);
}

}  // namespace dtrain::rpc
