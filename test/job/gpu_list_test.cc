#include "job/flags/gpu_list.h"

#include "job/parse.h"
#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;
using Numbers = std::vector<int64_t>;

namespace {

GpuList list_of(const std::string& text) {
  GpuList gpus;
  const Result<> parsed = parse_value(text, gpus);
  INFO(text);
  REQUIRE(parsed);
  GpuList again;
  REQUIRE(parse_value(format_value(gpus), again));
  CHECK(again == gpus);
  return gpus;
}

std::string refused_list(const std::string& text) {
  GpuList gpus{.numbers = {7}};
  const Result<> parsed = parse_value(text, gpus);
  INFO(text);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == Code::kUsage);
  CHECK(gpus.numbers == Numbers{7});
  return parsed.error().message;
}

// The numbers of "all:I/K" in a process that can use `usable` GPUs.
Numbers numbers_of(const std::string& text, int64_t usable) {
  GpuList gpus = list_of(text);
  REQUIRE(set_numbers(gpus, usable));
  CHECK(format_value(gpus) == text);  // so that a run that is resumed on another host uses all GPUs of that host
  return gpus.numbers;
}

}  // namespace

TEST_CASE("GPUs are given by numbers and ranges, or all of them", "[job][gpus]") {
  CHECK(list_of("0").numbers == Numbers{0});
  CHECK(list_of("1, 0").numbers == Numbers{1, 0});
  CHECK(list_of("0-3").numbers == Numbers{0, 1, 2, 3});
  CHECK(list_of("7,2-4,1").numbers == Numbers{7, 2, 3, 4, 1});
  CHECK(list_of("5-5").numbers == Numbers{5});
  CHECK(list_of("0-1023").numbers.size() == 1024);
  CHECK(list_of("").empty());
  for (const GpuList& gpus : {list_of("0-3"), list_of("")}) CHECK(gpus.has_numbers());

  const GpuList all = list_of("all"), half = list_of("all:2/2");
  CHECK((all.is_all() && !all.has_numbers() && !all.empty()));
  CHECK((half.part == 2 && half.parts == 2 && !half.is_all() && !half.has_numbers()));
  CHECK(list_of("all:1/1") == all);
}

TEST_CASE("a wrong list of GPUs is refused, with what is wrong", "[job][gpus]") {
  for (const char* text : {"x", "-1", "0-", "-", "0-x", "1-2-3", "0,,1", "0x1", "+1", "1K", "1.5", "al"}) {
    CHECK_THAT(refused_list(text), Contains("is neither the number of a GPU nor a range such as 0-3"));
  }
  CHECK(refused_list("3-1") == "the range '3-1' ends before it begins: give 1-3");
  for (const char* text : {"1024", "0-999999999", "99999999999999999999", "0-99999999999999999999"}) {
    CHECK_THAT(refused_list(text), Contains("is more than 1023, the largest number of a GPU"));
  }
  CHECK(refused_list("0-3,2") == "'0-3,2' names GPU 2 twice");
  for (const char* text : {"all,0", "0,all", "all,all", "0,all:1/2"}) {
    CHECK_THAT(refused_list(text), Contains("all cannot be combined with other GPUs"));
  }
  for (const char* text : {"all:", "all:0/2", "all:3/2", "all:1", "all:1/", "all:/2", "all:1/0", "all:-1/2", "all 1/2",
                           "all:1/2/3", "all:1/99999", "allx", "all:1/99999999999999999999"}) {
    CHECK_THAT(refused_list(text), Contains("such as all:1/2"));
  }
}

TEST_CASE("all GPUs of a process are divided into parts that differ by one at most", "[job][gpus]") {
  CHECK(numbers_of("all", 4) == Numbers{0, 1, 2, 3});
  CHECK(numbers_of("all:1/2", 4) == Numbers{0, 1});
  CHECK(numbers_of("all:2/2", 4) == Numbers{2, 3});
  CHECK(numbers_of("all:1/3", 4) == Numbers{0});
  CHECK(numbers_of("all:3/3", 4) == Numbers{2, 3});
  CHECK(numbers_of("all:3/3", 3) == Numbers{2});
  for (int64_t usable = 1; usable <= 9; usable++) {
    for (int64_t parts = 1; parts <= usable; parts++) {
      Numbers all;
      for (int64_t i = 0; i < parts; i++) {
        GpuList part = part_of(GpuList::all(), i, parts);
        REQUIRE(set_numbers(part, usable));
        CHECK(std::ssize(part.numbers) >= usable / parts);
        CHECK(std::ssize(part.numbers) <= (usable + parts - 1) / parts);
        all.insert(all.end(), part.numbers.begin(), part.numbers.end());
      }
      GpuList whole = GpuList::all();
      REQUIRE(set_numbers(whole, usable));
      CHECK(all == whole.numbers);
    }
  }
  GpuList third = part_of(GpuList::all(), 2, 3);
  const Result<> set = set_numbers(third, 2);
  REQUIRE_FALSE(set);
  CHECK(set.error().code == Code::kUsage);
  CHECK(
      set.error().message ==
      "--gpus all:3/3: this process can use 2 GPUs, which cannot be divided into 3 parts: each worker of a host needs "
      "a GPU of its own");
  GpuList numbers = list_of("5");
  REQUIRE(set_numbers(numbers, 2));  // Devices::open refuses GPUs that do not exist
  CHECK(numbers.numbers == Numbers{5});
}

TEST_CASE("the GPUs of several lines of a host are collected", "[job][gpus]") {
  GpuList gpus = list_of("0-1");
  add_gpus(list_of("1,5"), gpus);
  CHECK(gpus.numbers == Numbers{0, 1, 5});
  CHECK(part_of(gpus, 0, 2).numbers == Numbers{0});
  CHECK(part_of(gpus, 1, 2).numbers == Numbers{1, 5});
  add_gpus(GpuList::all(), gpus);
  CHECK(gpus == GpuList::all());
  add_gpus(list_of("3"), gpus);
  CHECK(gpus == GpuList::all());
}

TEST_CASE("what needs one GPU refuses several", "[job][gpus]") {
  CHECK(check_one_gpu(list_of("3"), "a model is computed on one GPU"));
  CHECK(check_one_gpu(list_of(""), "a model is computed on one GPU"));
  CHECK(check_one_gpu(list_of("2,3"), "a model is computed on one GPU").error().message ==
        "--gpus 2,3: a model is computed on one GPU; give one number, such as --gpus 2");
  GpuList all = GpuList::all();
  REQUIRE(set_numbers(all, 4));
  CHECK(check_one_gpu(all, "a model is computed on one GPU").error().message ==
        "--gpus all: a model is computed on one GPU, and this process can use 4; give one number, such as --gpus 0");
}

TEST_CASE("the flag --gpus takes all and ranges", "[job][gpus]") {
  CHECK(parsed({"--gpus", "0-2"}).device.count() == 3);
  CHECK(parsed({"--gpus", "all", "--dtype", "float16"}).device.gpus == GpuList::all());
  CHECK(parsed({"--gpus", "all", "--gpus", "none"}).device.gpus.empty());
  CHECK_THROWS_AS(parsed({"--gpus", "all"}).device.count(), CheckFailed);
  CHECK_THAT(refused({"--gpus", "all", "--cpus", "2"}), Contains("exclude each other"));
  CHECK_THAT(refused({"--gpus", "0-1", "--work-load-list", "1,2,3"}), Contains("3 numbers for 2 devices"));
  // The number of devices is compared with the list later, where it is known.
  CHECK(parsed({"--gpus", "all", "--work-load-list", "1,2,3"}).device.work_load_list.size() == 3);
  CHECK_THAT(refused({"--gpus", "all", "--work-load-list", "1,0"}), Contains("above 0"));
  CHECK_THAT(refused({"--gpus", "0-"}), Contains("--gpus: '0-' is neither"));
}

}  // namespace dtrain::job
