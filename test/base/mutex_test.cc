#include "base/mutex.h"

#include <thread>

#include "support/catch.h"

using namespace dtrain;
using std::chrono::milliseconds;

namespace {

// A number that threads wait for.
class Number {
 public:
  void set(int value) {
    const MutexLock lock(mutex_);
    value_ = value;
    changed_.notify_all();
  }
  void wait_for(int value) {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return value_ == value; });
  }
  bool wait_for(int value, milliseconds limit) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, limit, [&]() DT_REQUIRES(mutex_) { return value_ == value; });
  }
  bool wait_until(int value, std::chrono::steady_clock::time_point deadline) {
    const MutexLock lock(mutex_);
    return changed_.wait_until(mutex_, deadline, [&]() DT_REQUIRES(mutex_) { return value_ == value; });
  }
  void throw_while_waiting() {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, []() -> bool { throw 1; });
  }
  // Sets the number while another function holds the mutex and has released it for a while.
  void set_unlocked(int value) {
    const MutexLock lock(mutex_);
    value_ = 0;
    {
      const MutexUnlock unlocked(mutex_);
      set(value);
    }
    value_++;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int value_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace

// A wait that did not release the mutex would never end; one that did not hold it afterwards would make ~MutexLock
// unlock a mutex that is not locked, and the next lock of the same thread would hang or be seen by ThreadSanitizer.
TEST_CASE("a condition variable releases the mutex while it waits and holds it afterwards", "[base]") {
  Number there, back;
  std::thread peer([&] {
    for (int i = 1; i <= 100; i++) {
      there.wait_for(i);
      back.set(i);
    }
  });
  for (int i = 1; i <= 100; i++) {
    there.set(i);
    back.wait_for(i);
  }
  peer.join();
  CHECK(back.wait_for(100, milliseconds(0)));
}

TEST_CASE("a wait with a time limit says whether its condition became true", "[base]") {
  Number number;
  CHECK_FALSE(number.wait_for(1, milliseconds(2)));
  CHECK_FALSE(number.wait_until(1, std::chrono::steady_clock::now() - milliseconds(1)));
  number.set(1);
  CHECK(number.wait_for(1, milliseconds(0)));
  CHECK(number.wait_until(1, std::chrono::steady_clock::now() - milliseconds(1)));
}

TEST_CASE("a mutex is free again after a condition that throws", "[base]") {
  Number number;
  CHECK_THROWS_AS(number.throw_while_waiting(), int);
  number.set(1);
  CHECK(number.wait_for(1, milliseconds(0)));
}

TEST_CASE("a mutex that is unlocked for a scope is held again after it", "[base]") {
  Number number;
  number.set_unlocked(7);
  CHECK(number.wait_for(8, milliseconds(0)));
}
