// What the fuzzers feed with bytes. Each function must return for all bytes, without a crash and without using much
// memory; it throws CheckFailed if a property below does not hold. Each returns whether the bytes were what they should
// be. The message of a refusal is never empty and has fewer than 10,000 bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::fuzz {

// A symbol file, read and given its shapes as `--network FILE` does. A network that is read is written, and that file
// is read again as the same network.
bool read_symbol_bytes(std::string_view bytes);

// A .params file. Arrays that are read are written, and those bytes are read as the same arrays.
bool read_params_bytes(std::string_view bytes);

// A record file. The scan's offsets ascend, and every record that it calls sound is read, with the same payload whether
// its end is known or not. The payload is written as a record, and that is read as the same payload. If it is that of
// an image, its parts fill it. The offsets are packed for another process and unpacked again.
bool read_records_bytes(std::string_view bytes);

// The index of a record file: its offsets ascend and lie in the file. An index that is written from them is read as the
// same. The bytes are also taken as offsets that another process has packed.
bool read_index_bytes(std::string_view bytes);

// A list of images. What is read is written, and that list is read as the same entries, also by --path-imglist if its
// ids differ.
bool read_list_bytes(std::string_view bytes);

// A pickle. Its values refer to values that it has and to bytes of the file. An array of bytes has as many as its rows
// and columns say.
bool read_pickle_bytes(std::string_view bytes);

// An image of any format. If it is decoded as a whole, a window of it is decoded too, to the same pixels, whatever the
// decoder has read before.
bool read_image_bytes(std::string_view bytes);

// A data_sharding file. Shares ascend and lie among the records. If there are no gaps, they cover all records, and a
// file that is written from them is read as the same shares.
bool read_sharding_bytes(std::string_view bytes);

// A host file. What becomes an argument of ssh is no option. All processes get a place; no line gets more than its
// slots or another role, and no GPU is used twice.
bool read_hosts_bytes(std::string_view bytes);

// A groups file, for the workers of several hosts and of one host. Groups that are read are written, and that file is
// read as the same groups.
bool read_groups_bytes(std::string_view bytes);

// An HTTP request. It is read the same whether its bytes arrive at once or one by one, within the limits of the reader.
// A request for GET or HEAD is written and read again as the same request. A token in it is what a cookie made of it
// has.
bool read_request_bytes(std::string_view bytes);

// The record file to which the inputs of read_index_bytes belong: three records.
std::string indexed_records();

// A fuzzer's input.
struct Target {
  const char* name;  // of the directory with its finds, for example "symbol"
  bool (*read)(std::string_view bytes);
  // Small inputs, which a fuzzer starts from.
  std::vector<std::string> (*seeds)();
  int refused_seeds = 0;  // how many of the seeds are not what they should be
};
const std::vector<Target>& targets();

std::vector<std::string> symbol_seeds();
std::vector<std::string> params_seeds();
std::vector<std::string> records_seeds();
std::vector<std::string> index_seeds();
std::vector<std::string> list_seeds();
std::vector<std::string> pickle_seeds();
std::vector<std::string> image_seeds();
std::vector<std::string> sharding_seeds();
std::vector<std::string> hosts_seeds();
std::vector<std::string> groups_seeds();
std::vector<std::string> request_seeds();

}  // namespace dtrain::fuzz
