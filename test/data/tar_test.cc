#include "data/records/tar.h"

#include <zlib.h>
#include <algorithm>

#include "make_gzip.h"
#include "make_images.h"
#include "make_tar.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::tar_end;
using dtrain::test::tar_member;

namespace {

Result<std::vector<TarMember>> list_text(const std::string& archive) {
  return list_tar(
      [&archive](int64_t offset, std::span<uint8_t> out) -> Result<> {
        if (offset + static_cast<int64_t>(out.size()) > static_cast<int64_t>(archive.size())) {
          return fail(Code::kData, "the file ends");
        }
        std::copy_n(archive.begin() + offset, out.size(), out.begin());
        return {};
      },
      0, static_cast<int64_t>(archive.size()), "a.tar");
}

// What walk_tar_gz gives for each member: "NAME=CONTENT;".
Result<std::string> walk_text(const std::string& path, int64_t bytes_max = 1 << 20) {
  std::string seen;
  DT_TRY_VOID(walk_tar_gz(path, bytes_max, [&](const std::string& name, int64_t) -> TakePiece {
    seen += name + "=";
    return [&seen](Bytes piece) -> Result<> {
      seen += piece.empty() ? ";" : std::string(piece.begin(), piece.end());
      return {};
    };
  }));
  return seen;
}

}  // namespace

TEST_CASE("the files of a tar archive are found with their places", "[data]") {
  const std::string archive = tar_member("./a/b.txt", "hello") + tar_member("directory/", "", '5') +
                              tar_member("empty", "") + tar_member("big", std::string(1300, 'x')) + tar_end();
  const std::vector<TarMember> members = must(list_text(archive));
  REQUIRE(members.size() == 3);
  CHECK(members[0].name == "a/b.txt");
  CHECK(archive.substr(static_cast<size_t>(members[0].offset), 5) == "hello");
  CHECK(members[1].size == 0);
  CHECK(members[2].name == "big");
  CHECK(members[2].size == 1300);
}

TEST_CASE("long names of GNU and pax archives are read", "[data]") {
  const std::string name(150, 'n');
  const std::string pax = "160 path=" + name + "\n";
  const std::string archive = tar_member("././@LongLink", name + '\0', 'L') + tar_member("short", "1") +
                              tar_member("PaxHeaders/x", pax, 'x') + tar_member("short", "2") +
                              tar_member("next", "3") + tar_end();
  const std::vector<TarMember> members = must(list_text(archive));
  REQUIRE(members.size() == 3);
  CHECK(members[0].name == name);
  CHECK(members[1].name == name);
  CHECK(members[2].name == "next");
}

TEST_CASE("a compressed archive is walked piece by piece, with and without gzip", "[data]") {
  const test::TempDir dir;
  const std::string archive = tar_member("a", "1") + tar_member("b", std::string(600, 'y')) + tar_end();
  test::write_gzip(dir.path("a.tar.gz"), archive);
  test::write_text(dir.path("a.tar"), archive);
  const std::string expected = "a=1;b=" + std::string(600, 'y') + ";";
  CHECK(must(walk_text(dir.path("a.tar.gz"))) == expected);
  CHECK(must(walk_text(dir.path("a.tar"))) == expected);
  CHECK_THAT(walk_text(dir.path("a.tar.gz"), 1000).error().message, Contains("larger than it should be"));
  CHECK(walk_text(dir.path("absent")).error().code == Code::kNotFound);
}

TEST_CASE("a tar archive is cut anywhere and has any bit of a header flipped without harm", "[data]") {
  const test::TempDir dir;
  const std::string archive = tar_member("a", "hello") + tar_member("b", "there");  // without the end
  for (size_t length = 0; length <= archive.size(); length += 8) {
    const std::string cut = archive.substr(0, length);
    const auto members = list_text(cut);
    CHECK((members || members.error().code == Code::kData));
    test::write_text(dir.path("a.tar"), cut);
    const auto seen = walk_text(dir.path("a.tar"));
    CHECK((seen || seen.error().code == Code::kData));
  }
  for (size_t bit = 0; bit < 512 * 8; bit++) {
    std::string flipped = archive;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto members = list_text(flipped);
    CHECK((members || members.error().code == Code::kData));
  }
}

TEST_CASE("members that claim absurd sizes are refused", "[data]") {
  for (const std::string& size :
       {std::string("77777777777"), std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        std::string("\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("-1")}) {
    CHECK(list_text(test::tar_header("a", size) + std::string(512, 'x')).error().code == Code::kData);
  }
  CHECK_THAT(list_text(std::string(1024, 'x')).error().message, Contains("a.tar: offset 0: not a tar archive"));
}
