#include "base/line_reader.h"

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using dtrain::test::must;
using dtrain::test::TempDir;

TEST_CASE("lines are read one by one, and long ones are cut", "[line-reader]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("a"), "one\n\n" + std::string(5 << 20, 'x') + "\nlast"));
  LineReader lines = must(LineReader::open(dir.path("a")));
  CHECK(must(lines.next()) == "one");
  CHECK(must(lines.next()) == "");
  const std::optional<std::string_view> cut = must(lines.next());
  REQUIRE(cut);
  CHECK(cut->size() == LineReader::kLineBytesMax);
  CHECK(lines.was_cut());
  CHECK(must(lines.next()) == "last");
  CHECK_FALSE(lines.has_newline());
  CHECK(lines.number() == 4);
  CHECK_FALSE(must(lines.next()));
  CHECK(lines.cut_lines_text() == dir.path("a") + ": 1 line is longer than 1 MiB and was cut; the first is line 3");
  CHECK(LineReader::open(dir.path("none")).error().code == Code::kNotFound);
  LineReader directory = must(LineReader::open(dir.path()));
  CHECK(directory.next().error().code == Code::kData);
}
