// Messages between the processes of a group: links.cc alone includes gloo. The contract of gloo.h for errors, limits
// and cancel is kept here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "comm/gloo.h"

namespace dtrain::comm {

// The connections of one rank with all others. One thread at a time calls it, but for cancel.
class Links {
 public:
  static Result<std::unique_ptr<Links>> connect(const GlooOptions& options, const Exchange& exchange);
  virtual ~Links() = default;

  // What the messages of one operation have in common; ranks whose channels differ do not hear each other. Within a
  // channel the messages of one rank to another are received in the order in which they were sent.
  struct Channel {
    std::string_view operation;  // for errors
    uint64_t number = 0;         // at least kFirstChannel; no second time
  };
  static constexpr uint64_t kFirstChannel = 2;

  // Messages that are under way together. Their bytes belong to it until finish() returns or it is destroyed: both wait
  // until nobody reads or writes them any more.
  class Round {
   public:
    virtual ~Round() = default;
    virtual Result<> send(uint32_t to, std::span<const std::byte> bytes) = 0;
    virtual Result<> receive(uint32_t from, std::span<std::byte> bytes) = 0;
    // All are sent and received. An error is the group's: every later call returns it.
    virtual Result<> finish() = 0;
  };
  virtual std::unique_ptr<Round> round(Channel channel) = 0;  // the links must outlive it

  // The error after which the group is of no further use, if there was one.
  virtual Result<> check() = 0;
  virtual void cancel(Error error) = 0;  // from any thread
};

}  // namespace dtrain::comm
