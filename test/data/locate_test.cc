#include "data/sources/locate.h"

#include <filesystem>

#include "data/loading/open.h"
#include "data/sources/idx_source.h"
#include "make_data_sets.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

namespace {

// A set of each form: idx, records, the files of CIFAR-10, class directories.
struct AllForms {
  test::TempDir dir;
  std::string idx = dir.path("train-images-idx3-ubyte"), records = dir.path("a.rec"),
              cifar = dir.path("data_batch_1.bin"), directory = dir.path("pets");

  AllForms() {
    test::write_idx(dir.path(), "train", 20, 28, 10);
    test::write_record_file(records, 10, 32, 32, 3, 10);
    test::write_cifar10(dir.path());
    test::write_images(directory + "/cat", 1);
    test::write_images(directory + "/dog", 1);
  }
};

// The form in which the set was found, or the error.
std::string form_of(const SetFiles& set) {
  if (!set.images.empty()) return "idx";
  if (!set.cifar.empty()) return "cifar";
  return set.directory.empty() ? "records" : "folder";
}
std::string training_form(const std::string& type, const std::string& train) {
  DataFiles files;
  files.data_type = type;
  files.type_given = !type.empty();
  files.data_train = train;
  const Result<Located> located = locate(files);
  return located ? form_of(located->train) : located.error().message;
}

}  // namespace

TEST_CASE("without --data-type, named files of every form are found", "[data]") {
  const AllForms all;
  CHECK(training_form("", all.idx) == "idx");
  CHECK(training_form("", all.records) == "records");
  CHECK(training_form("", all.cifar) == "cifar");
  CHECK(training_form("", all.directory) == "folder");
}

// The rows of the table are the values of --data-type; their columns are the forms that may be named together with it.
TEST_CASE("named files of a form that --data-type does not stand for are refused", "[data]") {
  const AllForms all;
  struct TypeRow {
    std::string type;
    bool idx, records, cifar, directory;
  };
  const std::vector<TypeRow> rows = {{"idx", true, false, false, false},    {"records", false, true, false, false},
                                     {"folder", false, false, false, true}, {"mnist", true, true, false, true},
                                     {"cifar10", false, true, true, true},  {"cifar100", false, true, true, true},
                                     {"imagenet", false, true, false, true}};
  for (const TypeRow& row : rows) {
    const auto check = [&](const std::string& name, const std::string& form, bool is_accepted) {
      const std::string result = training_form(row.type, name);
      INFO("--data-type " << row.type << " --data-train " << name << ": " << result);
      if (is_accepted) {
        CHECK(result == form);
      } else {
        CHECK_THAT(result, Catch::StartsWith("--data-train " + name + ": this is "));
        CHECK_THAT(result, Catch::Contains("--data-type " + row.type + " means"));
      }
    };
    check(all.idx, "idx", row.idx);
    check(all.records, "records", row.records);
    check(all.cifar, "cifar", row.cifar);
    check(all.directory, "folder", row.directory);
  }
}

TEST_CASE("the refusal of a form says what was named and what --data-type means", "[data]") {
  const AllForms all;
  CHECK(training_form("records", all.directory) == "--data-train " + all.directory +
                                                       ": this is a directory of class directories, but --data-type "
                                                       "records means record files; name other data, or "
                                                       "leave out --data-type");
  CHECK_THAT(training_form("idx", all.records),
             Catch::Contains("this is treated as a record file, but --data-type idx means an idx file with "
                             "'images-idx3-ubyte' in its name;"));
  CHECK_THAT(training_form("folder", all.dir.path("absent")),
             Catch::Contains("absent: no such file or directory; 'dtrain data get mnist'"));
}

TEST_CASE("--data-type folder takes class directories that lie beside record files", "[data]") {
  const AllForms all;
  test::write_record_file(all.directory + "/packed.rec", 2, 8, 8, 3, 2);
  CHECK(training_form("", all.directory) == "records");
  CHECK(training_form("records", all.directory) == "records");
  CHECK(training_form("folder", all.directory) == "folder");
}

TEST_CASE("--data-val must have a form that --data-type means", "[data]") {
  const AllForms all;
  DataFiles files;
  files.data_type = "records";
  files.type_given = true;
  files.data_train = all.records;
  files.data_val = all.directory;
  CHECK_THAT(locate(files).error().message,
             Catch::StartsWith("--data-val " + all.directory + ": this is a directory of"));
  std::filesystem::rename(all.records, all.dir.path("train.rec"));
  files.data_train.clear();
  files.data_dir = all.dir.path();
  files.data_val = "pets";
  CHECK_THAT(locate(files).error().message, Catch::StartsWith("--data-val pets: this is a directory of"));
  files.type_given = false;
  CHECK(must(locate(files)).validation.directory == all.directory);
}

// As for a run that is resumed with other files.
TEST_CASE("a data type that the user did not choose does not restrict the files that the user names", "[data]") {
  const AllForms all;
  DataFiles files;
  files.data_type = "records";
  files.data_train = all.directory;
  CHECK(form_of(must(locate(files)).train) == "folder");
}

TEST_CASE("binary files of the other CIFAR data set are refused", "[data]") {
  const AllForms all;
  DataOptions options;
  options.data_train = all.cifar;
  options.data_type = "cifar100";
  const auto opened = [&] {
    const Result<DataSets> sets = open_dataset(options, Log::silent());
    return sets ? "opened" : sets.error().message;
  };
  options.type_given = true;
  CHECK(opened() ==
        "--data-type cifar100: " + all.cifar + " belongs to cifar10; name files of cifar100, or leave out --data-type");
  options.data_type = "cifar10";
  CHECK(opened() == "opened");
}

TEST_CASE("cifar10 as record files may have its validation data in val.rec", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 20, 32, 32, 3, 10);
  test::write_record_file(dir.path("val.rec"), 3, 32, 32, 3, 10);
  DataFiles files = test::directory_of(dir.path());
  files.data_type = "cifar10";
  CHECK(must(locate(files)).validation.records == dir.path("val.rec"));
  test::write_record_file(dir.path("test.rec"), 4, 32, 32, 3, 10);
  CHECK(must(locate(files)).validation.records == dir.path("test.rec"));
}

TEST_CASE("idx files are found by the names that EMNIST and others give them", "[data]") {
  const auto names_in = [](const std::vector<std::string>& files) {
    const test::TempDir dir;
    for (const std::string& file : files) test::write_text(dir.path(file), "x");
    const Result<Located> located = locate(test::directory_of(dir.path()));
    if (!located) return located.error().message.substr(dir.path().size());
    std::string text;
    for (const std::string& path :
         {located->train.images, located->train.labels, located->validation.images, located->validation.labels}) {
      text += std::filesystem::path(path).filename().string() + " ";
    }
    return text;
  };
  CHECK(names_in({"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte",
                  "t10k-labels.idx1-ubyte"}) ==
        "train-images.idx3-ubyte train-labels.idx1-ubyte t10k-images.idx3-ubyte t10k-labels.idx1-ubyte ");
  CHECK(names_in({"emnist-letters-train-images-idx3-ubyte.gz", "emnist-letters-train-labels-idx1-ubyte.gz",
                  "emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte.gz"}) ==
        "emnist-letters-train-images-idx3-ubyte.gz emnist-letters-train-labels-idx1-ubyte.gz "
        "emnist-letters-test-images-idx3-ubyte emnist-letters-test-labels-idx1-ubyte.gz ");
  CHECK(names_in({"train-images.idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                  "t10k-labels-idx1-ubyte"}) ==
        "train-images.idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte ");
  CHECK_THAT(names_in({"emnist-letters-train-images-idx3-ubyte", "emnist-digits-train-images-idx3-ubyte"}),
             Catch::Contains("several sets") &&
                 Catch::Contains("--data-train (emnist-digits-train-images-idx3-ubyte, emnist-letters"));
  CHECK_THAT(names_in({"train-images-idx3-ubyte"}),
             Catch::Contains(
                 "train-labels-idx1-ubyte[.gz], t10k-images-idx3-ubyte[.gz], t10k-labels-idx1-ubyte[.gz] are missing"));
  CHECK(is_idx_images("emnist-train-images.idx3-ubyte.gz"));
  CHECK_FALSE(is_idx_images("train-labels-idx1-ubyte"));
}
