// What a stream does after its end, with this test in gRPC's place.
#include "rpc/server_stream.h"

#include <grpcpp/support/byte_buffer.h>
#include <memory>

#include "support/catch.h"

namespace dtrain::rpc {
namespace {

using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
using Stream = ServerStream<grpc::ByteBuffer, grpc::ByteBuffer>;

// Notes what the stream asks of gRPC.
class Call final : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Call(Reactor& reactor) : reactor_(reactor) { BindReactor(&reactor); }
  void SendInitialMetadata() override {}
  void Read(grpc::ByteBuffer*) override { reads++; }
  void Write(const grpc::ByteBuffer*, grpc::WriteOptions) override {}
  void WriteAndFinish(const grpc::ByteBuffer*, grpc::WriteOptions, grpc::Status) override {}
  void Finish(grpc::Status) override { finishes++; }
  int reads = 0, finishes = 0;

 private:
  grpc::internal::ServerReactor* reactor() override { return &reactor_; }
  void CallOnDone() override {}
  Reactor& reactor_;
};

struct Received {
  int messages = 0, ends = 0;
};

class Counting final : public Stream::Events {
 public:
  explicit Counting(Received& received) : received_(received) {}
  void on_message(Stream&, grpc::ByteBuffer&) override { received_.messages++; }
  void on_end() override { received_.ends++; }

 private:
  Received& received_;
};

}  // namespace

TEST_CASE("a closed stream delivers nothing, not even a message that has already come", "[rpc]") {
  Received received;
  grpc::CallbackServerContext context;
  const std::shared_ptr<Stream> stream = Stream::make(context, std::make_unique<Counting>(received));
  Reactor& reactor = *stream;
  Call call(reactor);
  stream->start();
  reactor.OnReadDone(true);
  CHECK(received.messages == 1);
  CHECK(call.reads == 2);
  stream->close(grpc::Status::CANCELLED);
  CHECK(call.finishes == 1);
  reactor.OnReadDone(true);
  CHECK(received.messages == 1);
  CHECK(call.reads == 2);
  reactor.OnDone();
  CHECK(received.ends == 1);
}

}  // namespace dtrain::rpc
