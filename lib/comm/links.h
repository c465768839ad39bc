// Messages between the processes of a group. links.cc implements the contract of gloo.h for errors, time limits and
// cancel. This interface does not depend on gloo: only links.cc and its parts (gloo_message, link_watch) include gloo.
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

// The connections of one rank to all others. Not thread-safe, except for cancel.
class Links {
 public:
  static Result<std::unique_ptr<Links>> connect(const GlooOptions& options, const PairExchange& exchange);
  virtual ~Links() = default;

  // Identifies the messages of one operation. Ranks that use different channels do not receive each other's messages.
  // Within a channel, the messages from one rank to another are received in the order in which they were sent.
  struct Channel {
    std::string_view operation;  // name of the operation, for errors
    uint64_t number = 0;         // number of the channel, at least kFirstChannel; must not be used twice
  };
  static constexpr uint64_t kFirstChannel = 2;

  // Messages that are in flight together. Their bytes belong to the round until finish() returns or the round is
  // destroyed; both wait until the bytes are no longer read or written.
  class Round {
   public:
    virtual ~Round() = default;
    virtual Result<> send(uint32_t to, std::span<const std::byte> bytes) = 0;
    virtual Result<> receive(uint32_t from, std::span<std::byte> bytes) = 0;
    // Waits until all messages are sent and received. An error makes the whole group unusable, so every later call
    // returns it.
    virtual Result<> finish() = 0;
  };
  virtual std::unique_ptr<Round> round(Channel channel) = 0;  // must not outlive the links

  // The error that made the group unusable, if there was one.
  virtual Result<> check() = 0;
  virtual void cancel(Error error) = 0;  // any thread may call it
};

}  // namespace dtrain::comm
