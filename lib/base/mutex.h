// Locks that clang checks: the code states which data a mutex guards, and code that accesses the data without the lock
// fails the check.
//
// scripts/dev/check-locks parses every file that uses this header with clang's thread-safety analysis; g++, which
// builds dtrain, ignores the annotations. In lib and cmd, the standard library's mutexes, locks and condition variables
// are used in this header only, because the analysis does not see them.
//
//   class Counter {
//    public:
//     void add() {
//       const MutexLock lock(mutex_);
//       count_++;
//       changed_.notify_all();
//     }
//     void wait_for(int count) {
//       const MutexLock lock(mutex_);
//       changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return count_ >= count; });
//     }
//
//    private:
//     Mutex mutex_;
//     ConditionVariable changed_;
//     int count_ DT_GUARDED_BY(mutex_) = 0;
//   };
//
// The analysis examines one function at a time, and treats a lambda as a separate function. It therefore needs to know
// which functions are called with the lock held (DT_REQUIRES). It does not check constructors and destructors, nor how
// a pointer to guarded data is used after the lock is released.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define DT_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define DT_THREAD_SAFETY(attribute)
#endif

// Written after a member's name: the member may be read or written only while this mutex is held.
#define DT_GUARDED_BY(mutex) DT_THREAD_SAFETY(guarded_by(mutex))
// Written after a function's or lambda's parameters: the caller must hold the mutex, and still holds it afterwards.
#define DT_REQUIRES(...) DT_THREAD_SAFETY(requires_capability(__VA_ARGS__))
// Written after a function's parameters: the caller must not hold the mutex, because the function locks it.
#define DT_EXCLUDES(...) DT_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
// Written after a function's parameters: the function's body is not checked. A comment next to it explains why that is
// safe.
#define DT_NO_THREAD_SAFETY_ANALYSIS DT_THREAD_SAFETY(no_thread_safety_analysis)
// Used only in the classes below: a type that can be held, a type that holds it for its lifetime, and the functions
// that lock and unlock.
#define DT_CAPABILITY(name) DT_THREAD_SAFETY(capability(name))
#define DT_SCOPED_CAPABILITY DT_THREAD_SAFETY(scoped_lockable)
#define DT_ACQUIRE(...) DT_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define DT_RELEASE(...) DT_THREAD_SAFETY(release_capability(__VA_ARGS__))

namespace dtrain {

// A std::mutex. lock() and unlock() are for the classes below; everything else uses MutexLock.
class DT_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() DT_ACQUIRE() { mutex_.lock(); }
  void unlock() DT_RELEASE() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds a mutex from its construction to its destruction.
class DT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) DT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() DT_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Releases a mutex that the calling thread holds, and locks it again when it is destroyed.
class DT_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) DT_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() DT_RELEASE() { mutex_.lock(); }  // clang calls this a release too, because the scope ends
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// A std::condition_variable, at the same cost. Its functions are those of the standard library, except that their
// argument is the mutex, which the calling thread must hold. Predicates are called with the mutex held and are marked
// DT_REQUIRES.
class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  // Waits for a notification, but may return without one.
  void wait(Mutex& mutex) DT_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();  // the lock must not unlock the mutex, because the caller still holds it
  }

  template <class Clock, class Duration>
  std::cv_status wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> deadline) DT_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    lock.release();
    return status;
  }

  template <class Rep, class Period>
  std::cv_status wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> limit) DT_REQUIRES(mutex) {
    return wait_until(mutex, after(limit));
  }

  // Waits until until() is true. The bodies of these overloads are not checked, because the analysis cannot tell that
  // `mutex` is the one that the predicate requires.
  template <class Predicate>
  void wait(Mutex& mutex, const Predicate& until) DT_REQUIRES(mutex) DT_NO_THREAD_SAFETY_ANALYSIS {
    while (!until()) wait(mutex);
  }

  // Waits until until() is true or the deadline has passed. Returns the last result of until().
  template <class Clock, class Duration, class Predicate>
  bool wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> deadline, const Predicate& until)
      DT_REQUIRES(mutex) DT_NO_THREAD_SAFETY_ANALYSIS {
    while (!until()) {
      if (wait_until(mutex, deadline) == std::cv_status::timeout) return until();
    }
    return true;
  }

  template <class Rep, class Period, class Predicate>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> limit, const Predicate& until) DT_REQUIRES(mutex) {
    return wait_until(mutex, after(limit), until);
  }

 private:
  using Steady = std::chrono::steady_clock;

  template <class Rep, class Period>
  static Steady::time_point after(std::chrono::duration<Rep, Period> limit) {
    return Steady::now() + std::chrono::ceil<Steady::duration>(limit);
  }

  std::condition_variable condition_;
};

}  // namespace dtrain
