#include "kvstore/task_queue.h"

#include <future>

#include "support/catch.h"

using namespace dtrain::kvstore;

TEST_CASE("a task queue counts the tasks that no thread has begun", "[kvstore]") {
  std::promise<void> begun, may_end, ended;
  TaskQueue tasks(1, "test");
  CHECK(tasks.queued() == 0);
  tasks.run([&] {
    begun.set_value();
    may_end.get_future().wait();
  });
  begun.get_future().wait();
  CHECK(tasks.queued() == 0);
  tasks.run([] {});
  tasks.run([&] { ended.set_value(); });
  CHECK(tasks.queued() == 2);
  may_end.set_value();
  ended.get_future().wait();
  CHECK(tasks.queued() == 0);
}
