
#include "exec/cpu/program.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using namespace dtrain::exec::cpu;

namespace {

Kernel nothing() {
  return [](void* const*) {};
}

}  // namespace

// x -> a -> b -> c: b may overwrite a; c may not overwrite b, which is read once more.
TEST_CASE("a step works in place where the life of its input ends", "[exec][cpu]") {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Program program(engine);
  const Md md({1024}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
  const ValueId a = program.tensor(md), b = program.tensor(md), c = program.tensor(md), d = program.tensor(md);
  program.kernel(0, "make", nothing(), {out(a)});
  program.kernel(0, "first", nothing(), {in(a), out(b)}, {a});
  program.kernel(0, "second", nothing(), {in(b), out(c)}, {b});
  program.kernel(0, "third", nothing(), {in(b), in(c), out(d)});
  const MemoryPlan shared = program.plan_memory(true);
  CHECK(shared.offset[a] == shared.offset[b]);
  CHECK(shared.offset[b] != shared.offset[c]);
  CHECK(shared.arena_bytes == 3 * md.get_size());
  CHECK(program.plan_memory(false).arena_bytes == 4 * md.get_size());
}
