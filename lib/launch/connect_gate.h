// Limits the number of connections that are being established at the same time. Each connecting ssh costs some tens of
// milliseconds of this host's processor time: if hundreds began at once, all would be slow, and some would exceed their
// time limits.
#pragma once

#include <cstddef>

namespace dtrain::launch {

class ConnectGate {
 public:
  static constexpr size_t kAtOnce = 64;

  explicit ConnectGate(size_t at_once = kAtOnce) : room_(at_once) {}
  [[nodiscard]] bool has_room() const { return room_ > 0; }
  void enter() { room_--; }  // must be called only if there is room
  void leave() { room_++; }

 private:
  size_t room_;
};

}  // namespace dtrain::launch
