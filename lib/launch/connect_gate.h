// How many connections may be in the making at the same time. Each ssh that connects costs some tens of milliseconds of
// this host's processors: if hundreds began at once, all would be slow, and some would exceed their time limits.
#pragma once

#include <cstddef>

namespace dtrain::launch {

class ConnectGate {
 public:
  static constexpr size_t kAtOnce = 64;

  explicit ConnectGate(size_t at_once = kAtOnce) : room_(at_once) {}
  [[nodiscard]] bool has_room() const { return room_ > 0; }
  void enter() { room_--; }  // only with room
  void leave() { room_++; }

 private:
  size_t room_;
};

}  // namespace dtrain::launch
