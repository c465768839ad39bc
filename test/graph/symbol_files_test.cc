// The symbol files of dtrain's networks are those that MXNet 1.9.1 writes for its own, to the byte. MXNet's scripts
// compare the two texts before they go on with a checkpoint.
#include <sstream>

#include "base/crc32c.h"
#include "base/file.h"
#include "graph/models/models.h"
#include "graph/symbol/parse.h"
#include "graph/symbol/read.h"
#include "graph/symbol/write.h"
#include "support/catch.h"

namespace dtrain::graph {
namespace {

struct FileRow {
  ModelOptions options;
  size_t bytes = 0;
  uint32_t crc = 0;
};

std::vector<FileRow> rows() {
  std::istringstream lines(*read_file(std::string(DTRAIN_EXPECTED_DIR) + "/symbols.txt"));
  std::vector<FileRow> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    FileRow row;
    int64_t channels = 0, edge = 0;
    words >> row.options.network >> row.options.num_classes >> channels >> edge >> row.options.data_type >> row.bytes;
    words >> std::hex >> row.crc;
    REQUIRE(words);
    row.options.image = {channels, edge, edge};
    row.options.batch_norm = row.options.network.ends_with("+bn");
    if (row.options.batch_norm) row.options.network.resize(row.options.network.size() - 3);
    if (row.options.data_type == "-") row.options.data_type.clear();
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("every network's symbol file is MXNet 1.9.1's byte for byte", "[graph][symbol]") {
  const std::vector<FileRow> all = rows();
  CHECK(all.size() > 54);
  for (const FileRow& row : all) {
    INFO(row.options.network << (row.options.batch_norm ? " with batch norms" : "") << " for images of "
                             << row.options.image[1] << " pixels");
    const std::string text = symbol_text(build_model(row.options).value());
    CHECK(text.size() == row.bytes);
    CHECK(crc32c(std::as_bytes(std::span(text))) == row.crc);
  }
}

// The graphs have the same order of keys as well, because the file's order is that of the graph.
TEST_CASE("a file that is read is written again without a change", "[graph][symbol]") {
  for (const FileRow& row : rows()) {
    INFO(row.options.network);
    const Graph built = build_model(row.options).value();
    const std::string text = symbol_text(built);
    const Graph read = read_symbol(parse_symbol_file(text).value()).value();
    CHECK(symbol_text(read) == text);
    const Shapes expected = infer_shapes(built, row.options.image).value();
    const Shapes seen = infer_shapes(read, row.options.image).value();
    CHECK(seen.heads[0].outputs == expected.heads[0].outputs);
    REQUIRE(seen.parameters.size() == expected.parameters.size());
    for (size_t i = 0; i < seen.parameters.size(); i++) {
      CHECK(seen.parameters[i].name == expected.parameters[i].name);
      CHECK(seen.parameters[i].shape == expected.parameters[i].shape);
    }
  }
}

}  // namespace dtrain::graph
