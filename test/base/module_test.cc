#include "base/module.h"

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using Catch::Matchers::Contains;

TEST_CASE("a module that cannot be loaded is an error with the file, the reason and a remedy", "[base]") {
  const Module module{.file = "dtrain_none.so", .entry = "dtrain_none", .use = "nothing", .remedy = "do without"};
  const Result<void*> absent = load_module(module, module.file);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == Code::kStartup);
  CHECK_THAT(absent.error().message, Contains("this build of dtrain does not have the module for nothing") &&
                                         Contains("dtrain_none.so") && Contains("; do without"));
  const test::TempDir dir;
  const std::string path = dir.path("dtrain_none.so");
  test::must(write_file_atomic(path, "not a library"));
  CHECK_THAT(load_module(module, path).error().message,
             Contains("cannot load the module for nothing: " + path) && Contains("; do without"));
  CHECK_THAT(load_module(module, "libc.so.6").error().message,
             Contains("libc.so.6 is not a module of dtrain") && Contains("dtrain_none"));
}
