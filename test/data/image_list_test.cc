#include "data/records/image_list.h"

#include <filesystem>

#include "make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

// The expected orders are Python's own.
TEST_CASE("lists are shuffled as Python 3 shuffles them with seed 100", "[data]") {
  CHECK(python_shuffle(5) == std::vector<int64_t>{2, 0, 4, 3, 1});
  CHECK(python_shuffle(10) == std::vector<int64_t>{4, 0, 5, 9, 3, 1, 6, 8, 7, 2});
  const auto thousand = python_shuffle(1000);
  CHECK(std::vector<int64_t>(thousand.begin(), thousand.begin() + 6) ==
        std::vector<int64_t>{342, 471, 929, 100, 543, 231});
  CHECK(python_shuffle(0).empty());
  CHECK(python_shuffle(1) == std::vector<int64_t>{0});
}

TEST_CASE("a list is written as MXNet writes it and read back", "[data]") {
  const std::vector<ListEntry> entries = {{901, {2.0f}, "Cleavers/d90adada5.png"}, {7, {1.5f, -3.0f}, "a b.jpg"}};
  CHECK(list_text(entries) == "901\t2.000000\tCleavers/d90adada5.png\n7\t1.500000\t-3.000000\ta b.jpg\n");
  CHECK(parse_list(list_text(entries), "x.lst", Log::silent()) == entries);
}

TEST_CASE("a line without a tab is split at blanks, and its rest is the path", "[data]") {
  const auto entries = parse_list("  12   3 directory/my image.jpg  \r\n13 4 b.png", "x.lst", Log::silent());
  CHECK(entries == std::vector<ListEntry>{{12, {3.0f}, "directory/my image.jpg"}, {13, {4.0f}, "b.png"}});
}

TEST_CASE("the byte order mark of an editor is no part of a list's first line", "[data]") {
  CHECK(parse_list("\xef\xbb\xbf"
                   "12\t3\ta.jpg\r\n13\t4\tb.jpg\r\n",
                   "x.lst", Log::silent()) == std::vector<ListEntry>{{12, {3.0f}, "a.jpg"}, {13, {4.0f}, "b.jpg"}});
}

TEST_CASE("lines that are not entries are left out", "[data]") {
  for (const char* line : {"x", "1\t2", "1\t\tp", "a\t1\tp", "-\t1\tp", "1.5\t1\tp", "1\tnan\tp", "1\tx\tp", "1\t2\t",
                           "1 2", "1 x p", "\t\t\t"}) {
    INFO(line);
    CHECK(parse_list(std::string(line) + "\n5\t6\tkept.jpg\n", "x.lst", Log::silent()).size() == 1);
  }
  CHECK(parse_list("", "x.lst", Log::silent()).empty());
}

TEST_CASE("ids may be negative or end in a decimal zero", "[data]") {
  const std::vector<ListEntry> entries =
      parse_list("-1\t0\ta\n1.0\t1\tb\n+7\t1\tc\n2.000 1 d\n", "x.lst", Log::silent());
  std::vector<uint64_t> ids;
  for (const ListEntry& entry : entries) ids.push_back(entry.id);
  CHECK(ids == std::vector<uint64_t>{UINT64_MAX, 1, 7, 2});
  for (const char* id : {"", "-", ".", ".0", "1.01", "1e3", "0x1", "18446744073709551616", "1 "})
    CHECK_FALSE(parse_list_id(id));
}

TEST_CASE("directories are walked like os.walk, a directory gets its label at its first image", "[data]") {
  const test::TempDir dir;
  namespace fs = std::filesystem;
  for (const char* path : {"z.JPG", "b/2.png", "b/1.jpg", "b/inner/0.jpeg", "a/notes.txt", "c/x.jpg", "b/.jpg"}) {
    fs::create_directories(fs::path(dir.path(path)).parent_path());
    test::write_text(dir.path(path), "x");
  }
  fs::create_directory_symlink(dir.path("c"), dir.path("d"));
  fs::create_directory_symlink(dir.path(""), dir.path("c/up"));  // a cycle that must not be followed forever
  const std::vector<std::string> extensions = {".jpeg", ".jpg", ".png"};
  const ImageDirectory deep = must(list_directory(dir.path(), true, extensions));
  std::vector<ListEntry> first(deep.entries.begin(), deep.entries.begin() + 5);
  CHECK(first == std::vector<ListEntry>{{0, {0.0f}, "z.JPG"},
                                        {1, {1.0f}, "b/1.jpg"},
                                        {2, {1.0f}, "b/2.png"},
                                        {3, {2.0f}, "b/inner/0.jpeg"},
                                        {4, {3.0f}, "c/x.jpg"}});
  CHECK(deep.labels[1] == std::pair<std::string, int>{"b", 1});
  CHECK(deep.labels[2] == std::pair<std::string, int>{"b/inner", 2});

  const ImageDirectory flat = must(list_directory(dir.path(), false, extensions));
  CHECK(flat.entries == std::vector<ListEntry>{{0, {0.0f}, "z.JPG"}});
  CHECK(list_directory(dir.path("absent"), true, extensions).error().code == Code::kNotFound);
}
