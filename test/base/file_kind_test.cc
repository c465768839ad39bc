#include "base/file_kind.h"

#include "support/catch.h"

using namespace dtrain;
using namespace std::string_view_literals;

TEST_CASE("kinds of files are recognized by their first bytes", "[base]") {
  CHECK(file_kind("\x0a\x23\xd7\xce\0\0\0\0"sv) == "a RecordIO file");
  CHECK(file_kind("\x12\x01\0\0\0\0\0\0\0"sv) == "an NDArray file of MXNet");
  CHECK(file_kind("\0\0\x08\x03"sv) == "an idx file of images (MNIST)");
  CHECK(file_kind("\xff\xd8\xff\xe0") == "a JPEG image");
  CHECK(file_kind("\x80\x03}q"sv) == "a pickled Python object");
  CHECK(file_kind("\x80\x06}q"sv) == "a file of another kind");
  CHECK(file_kind("0\t1.000000\ta.jpg\nGrün\n") == "a text file");
  CHECK(file_kind("Gr\xc3") == "a text file");  // a character that is cut
  CHECK(file_kind("P6\n2 2\n255\n\xff\xfe\x80") == "a file of another kind");
  CHECK(file_kind("") == "an empty file");
  CHECK(file_kind("\x01\x02") == "a file of another kind");
}
