#include "rpc/message_faults.h"

#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "scheduler.pb.h"

namespace dtrain::rpc {
namespace {

using grpc::experimental::InterceptionHookPoints;

// The field of the message's `oneof what`, such as "held"; empty if there is none.
std::string name_of(const google::protobuf::Message& message) {
  const google::protobuf::OneofDescriptor* what = message.GetDescriptor()->FindOneofByName("what");
  const google::protobuf::FieldDescriptor* field = message.GetReflection()->GetOneofFieldDescriptor(message, what);
  return field == nullptr ? "" : field->name();
}

class Counter final : public grpc::experimental::Interceptor {
 public:
  Counter(std::shared_ptr<FailPoints> points, std::string_view method)
      : points_(std::move(points)), method_(method.substr(method.rfind('/') + 1)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) pass_sent(*batch);
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        batch->GetRecvMessage() != nullptr) {
      pass_received(*batch);
    }
    batch->Proceed();
  }

 private:
  void pass_sent(grpc::experimental::InterceptorBatchMethods& batch) {
    if (method_ != "Control") return points_->pass_message(call_name());
    if (const void* sent = batch.GetSendMessage()) points_->pass_message(name_of(*static_cast<const proto::Up*>(sent)));
  }

  void pass_received(grpc::experimental::InterceptorBatchMethods& batch) {
    if (method_ == "Control")
      return points_->pass_message(name_of(*static_cast<const proto::Down*>(batch.GetRecvMessage())));
    points_->pass_message(method_ == "Exchange" ? call_name() : call_name() + "_reply");
  }

  [[nodiscard]] std::string call_name() const {
    if (method_ == "Exchange") return "data";
    std::string name(method_);
    name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
    return name;
  }

  std::shared_ptr<FailPoints> points_;
  std::string method_;
};

class CounterFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit CounterFactory(std::shared_ptr<FailPoints> points) : points_(std::move(points)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo* info) override {
    return new Counter(points_, info->method());  // gRPC deletes it at the end of the call
  }

 private:
  std::shared_ptr<FailPoints> points_;
};

}  // namespace

Interceptors message_counters(std::shared_ptr<FailPoints> points) {
  Interceptors counters;
  if (points != nullptr) counters.push_back(std::make_unique<CounterFactory>(std::move(points)));
  return counters;
}

}  // namespace dtrain::rpc
