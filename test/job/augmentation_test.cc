#include "job/resolve/augmentation.h"

#include "base/file.h"
#include "job/parse.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

namespace {

AugmentFlags augment(const std::vector<std::string>& arguments) {
  return parsed(arguments).job.augment;
}

}  // namespace

TEST_CASE("an augmentation level is a bundle of flags and includes the lower levels", "[job]") {
  const AugmentFlags one = augment({"--aug-level", "1"});
  CHECK((one.random_crop && one.random_mirror));
  CHECK(one.max_random_h == 0);
  const AugmentFlags two = augment({"--aug-level", "2"});
  CHECK((two.random_crop && two.random_mirror));
  CHECK((two.max_random_h == 36 && two.max_random_s == 50 && two.max_random_l == 50));
  CHECK(two.max_random_rotate_angle == 0);
  const AugmentFlags three = augment({"--aug-level", "3"});
  CHECK((three.random_crop && three.max_random_h == 36));
  CHECK(three.max_random_rotate_angle == 10);
  CHECK(three.max_random_shear_ratio == 0.1);
  CHECK(three.max_random_aspect_ratio == 0.25);
  CHECK_FALSE(augment({}).random_crop);
  CHECK_THAT(refused({"--aug-level", "4"}), Contains("--aug-level"));
}

TEST_CASE("the option for ImageNet's augmentation is a bundle of flags", "[job]") {
  const AugmentFlags all = augment({"--use-imagenet-data-augmentation", "1"});
  CHECK(all.rgb_mean == std::vector<double>{123.68, 116.779, 103.939});
  CHECK(all.rgb_std == std::vector<double>{58.393, 57.12, 57.375});
  CHECK((all.random_resized_crop && all.random_mirror && !all.random_crop));
  CHECK(all.min_random_area == 0.08);
  CHECK(aspect_range(all).min == 0.75);
  CHECK(aspect_range(all).max == 4.0 / 3);
  CHECK((all.brightness == 0.4 && all.contrast == 0.4 && all.saturation == 0.4));
  CHECK(all.pca_noise == 0.1);
  CHECK_THAT(refused({"--use-imagenet-data-augmentation", "1", "--aug-level", "1"}), Contains("set the same flags"));
}

TEST_CASE("a flag overrides a bundle unless its source has a lower precedence", "[job]") {
  CHECK_FALSE(augment({"--aug-level", "2", "--random-crop", "0"}).random_crop);
  CHECK(augment({"--max-random-s", "7", "--aug-level", "2"}).max_random_s == 7);
  CHECK(augment({"--use-imagenet-data-augmentation", "--rgb-std", "2,2,2"}).rgb_std == std::vector<double>{2, 2, 2});
  const dtrain::test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("job.toml"), "random-crop = false\nmax-random-h = 3\n"));
  const AugmentFlags over_config = augment({"--config", dir.path("job.toml"), "--aug-level", "2"});
  CHECK(over_config.random_crop);
  CHECK(over_config.max_random_h == 36);
  REQUIRE(write_file_atomic(dir.path("job.toml"), "aug-level = 2\nmax-random-h = 3\n"));
  const AugmentFlags in_config = augment({"--config", dir.path("job.toml"), "--max-random-l", "9"});
  CHECK(in_config.max_random_h == 3);
  CHECK(in_config.max_random_l == 9);
  CHECK(in_config.max_random_s == 50);
}

TEST_CASE("a resumed job keeps its augmentation even if its bundle would set other values", "[job]") {
  const dtrain::test::TempDir dir;
  const Flags first = parsed({"--aug-level", "2", "--random-crop", "0", "--seed", "5"});
  REQUIRE(write_file_atomic(dir.path(kJobSpecFile), text(requested(first))));
  const Flags again = parsed({"--resume", dir.path("")});
  CHECK_FALSE(again.job.augment.random_crop);
  CHECK(again.job.augment.random_mirror);
  CHECK(again.job.augment.max_random_h == 36);
  CHECK(hash(requested(again)) == hash(requested(first)));
}

TEST_CASE("the aspect ratio is given as a range or as a distance from 1", "[job]") {
  CHECK(aspect_range(augment({"--max-random-aspect-ratio", ".25"})).min == 0.75);
  CHECK(aspect_range(augment({"--max-random-aspect-ratio", ".25"})).max == 1.25);
  CHECK(aspect_range(augment({"--min-random-aspect-ratio", ".5", "--max-random-aspect-ratio", "2"})).min == 0.5);
  CHECK(aspect_range(augment({"--min-random-aspect-ratio", ".5", "--max-random-aspect-ratio", "2"})).max == 2);
  CHECK(aspect_range({}).min == 1);
  CHECK_THAT(refused({"--max-random-aspect-ratio", "1"}), Contains("the largest deviation from 1"));
  CHECK_THAT(refused({"--min-random-aspect-ratio", ".5"}), Contains("must be above 0 and not above the maximum"));
}

TEST_CASE("a range of areas without crops by area has no effect, as in MXNet's scripts", "[job]") {
  const auto notes = [](const std::vector<std::string>& words) {
    const Result<Parsed> parsed = parse_flags(words, variables({}));
    REQUIRE(parsed);
    return parsed->notes;
  };
  CHECK(notes({"--benchmark", "1", "--min-random-area", ".5", "--random-resized-crop", "1"}).empty());
  const std::vector<std::string> alone = notes({"--benchmark", "1", "--min-random-area", ".5"});
  REQUIRE(alone.size() == 1);
  CHECK_THAT(alone[0], Contains("have no effect without --random-resized-crop 1"));
}

TEST_CASE("contradictory augmentation flags are usage errors", "[job]") {
  CHECK_THAT(refused({"--random-resized-crop", "1", "--random-crop", "1"}), Contains("leave out --random-crop"));
  CHECK_THAT(refused({"--random-resized-crop", "1", "--aug-level", "1"}), Contains("leave out --random-crop"));
  CHECK_THAT(refused({"--random-resized-crop", "1", "--min-random-scale", ".5"}), Contains("--min-random-scale"));
  CHECK_THAT(refused({"--random-resized-crop", "1", "--min-crop-size", "20", "--max-crop-size", "30"}),
             Contains("--min-crop-size"));
  CHECK_THAT(refused({"--random-resized-crop", "1", "--max-random-area", "2"}), Contains("more than 1"));
  CHECK_THAT(refused({"--min-crop-size", "20"}), Contains("give both"));
  CHECK_THAT(refused({"--min-crop-size", "30", "--max-crop-size", "20"}), Contains("from 1 to the maximum"));
  CHECK_THAT(refused({"--min-random-scale", "2"}), Contains("not above the maximum"));
  CHECK_THAT(refused({"--min-random-scale", "0"}), Contains("above 0"));
  CHECK_THAT(refused({"--min-img-size", "20", "--max-img-size", "10"}), Contains("the minimum must not be above"));
  CHECK_THAT(refused({"--max-random-h", "256"}), Contains("more than 255"));
  CHECK_THAT(refused({"--rotate-list", "10,-400"}), Contains("less than -360"));
  CHECK_THAT(refused({"--resize", "9000"}), Contains("more than 8192"));
  CHECK_THAT(refused({"--inter-method", "5"}), Contains("--inter-method"));
  CHECK_THAT(refused({"--brightness", "-1"}), Contains("--brightness"));
  CHECK(augment({"--rotate-list", "-10,20"}).rotate_list == std::vector<int64_t>{-10, 20});
  CHECK(augment({"--min-crop-size", "20", "--max-crop-size", "20"}).max_crop_size == 20);
}

TEST_CASE("augmentation flags are part of the JobSpec", "[job]") {
  const std::vector<std::vector<std::string>> flags = {{"--resize", "9"},
                                                       {"--val-resize", "9"},
                                                       {"--inter-method", "2"},
                                                       {"--random-resized-crop", "1"},
                                                       {"--max-random-h", "9"},
                                                       {"--rotate", "9"},
                                                       {"--rotate-list", "9"},
                                                       {"--max-random-shear-ratio", ".1"},
                                                       {"--max-img-size", "900"},
                                                       {"--contrast", ".1"},
                                                       {"--max-random-illumination", "1"}};
  const JobSpec plain = requested(parsed({}));
  for (const std::vector<std::string>& flag : flags) {
    INFO(flag[0]);
    const JobSpec other = requested(parsed(flag));
    CHECK(differences(plain, other) == std::vector<std::string>{flag[0].substr(2)});
    const Result<JobSpec> read = parse_job_spec(text(other));
    REQUIRE(read);
    CHECK(hash(*read) == hash(other));
  }
}

}  // namespace dtrain::job
