#include "data/cifar_batch.h"
#include "data/records/image_record.h"
#include "data/records/record_index.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"

namespace dtrain::fuzz {

using namespace dtrain::data;

namespace {

// Record files and indexes of images whose images are a few letters.
std::string record_file(const std::vector<std::string>& payloads) {
  std::vector<uint8_t> file;
  for (const std::string& payload : payloads) {
    const Result<> appended = append_record(file, as_bytes(payload));
    DT_CHECK(appended, "{}", appended.error().text());
  }
  return {file.begin(), file.end()};
}

std::string image_payload(uint64_t id, const std::vector<float>& labels, std::string_view image) {
  std::vector<uint8_t> payload;
  append_image_record(payload, id, labels, as_bytes(image));
  return {payload.begin(), payload.end()};
}

}  // namespace

std::string indexed_records() {
  return record_file({image_payload(1, {0}, "abcd"), image_payload(2, {1}, "abcde"), image_payload(3, {2}, "")});
}

std::vector<std::string> records_seeds() {
  const std::string magic = "\x0a\x23\xd7\xce";
  return {indexed_records(), record_file({""}),
          // the magic in the payload cuts a record into parts
          record_file({magic + "ab" + magic, image_payload(7, {1, 2, 3}, "xxxx" + magic + magic + "yyyy" + magic)}),
          record_file({std::string(300, 'x'), magic})};
}

std::vector<std::string> index_seeds() {
  const MemoryFile memory(indexed_records());
  const RecordFile file = RecordFile::open(memory.path()).value();
  return {"0\t0\n1\t36\n2\t76\n", "7 36\r\n8 0\r\n\r\n", "0\t40\n", "", pack_offsets(file, {0, 36, 76}).value()};
}

std::vector<std::string> list_seeds() {
  return {"0\t1.000000\ta.jpg\n1\t0.000000\tdir/b c.jpg\n", "5\t1\t2.5\ta.png\n6\t0\t-1e-3\tb.png",
          "3 2 with blanks.jpg\r\n\n4 0 other.jpg\r\n", "18446744073709551615\t3.4e38\tx\n"};
}

std::vector<std::string> pickle_seeds() {
  return {test::cifar_batch(1, {"labels"}), test::cifar_batch(1, {"coarse_labels", "fine_labels"}),
          test::cifar_batch(1, {"labels"}, true),
          "\x80\x02]q\x01(h\x01Neh\x01"
          "a."};
}

std::vector<std::string> sharding_seeds() {
  return {"0 1\n",
          "# three workers\n0 0.333333\n0.333333 0.666666\n0.666666 0.999999\n",
          "0 5e-1\n.5 1.0  # the rest\n",
          "0 0.15\n0.15 0.15\n0.15 100E-2\n",
          "0.7 1\n0 0.2\n0.2 0.7\n",
          "0.1 0.2\n0.5 0.75\n"};
}

}  // namespace dtrain::fuzz
