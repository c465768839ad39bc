#include "job/process/token.h"

#include "base/file.h"
#include "job/parse.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "job/resolve/data_set.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

TEST_CASE("a token has 128 random bits", "[job]") {
  const std::string a = make_token(), b = make_token();
  CHECK(a.size() == 32);
  CHECK(a.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(a != b);
  CHECK(same_token(a, a));
  CHECK_FALSE(same_token(a, b));
  CHECK_FALSE(same_token(a, a.substr(1)));
  CHECK_FALSE(same_token("", a));
  CHECK(same_token("", ""));
}

TEST_CASE("the token comes from its file or else from the environment", "[job]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("token"), "abc123\n"));
  const Variables environment = {{"DTRAIN_TOKEN", "fromenv"}};
  CHECK(token_of(parsed({}, environment).launch) == "fromenv");
  CHECK(token_of(parsed({"--token-file", dir.path("token")}, environment).launch) == "abc123");
  CHECK(token_of(parsed({}).launch) == "");
  // A launcher gives its processes the token in the environment, because the file may be missing on other hosts.
  REQUIRE(write_file_atomic(dir.path("job.toml"), "token-file = '" + dir.path("token") + "'\n"));
  const std::vector<std::string> config = {"--config", dir.path("job.toml")};
  CHECK(token_of(parsed(config).launch) == "abc123");
  CHECK(token_of(parsed(config, environment).launch) == "fromenv");
  REQUIRE(write_file_atomic(dir.path("token"), "\n"));
  CHECK_FALSE(token_of(parsed({"--token-file", dir.path("token")}).launch));
  CHECK(token_of(parsed({"--token-file", dir.path("none")}).launch).error().code == Code::kNotFound);
}

// gRPC would fail an assertion, which prints the token and ends the process.
TEST_CASE("an invalid token is refused with its source but not shown", "[job]") {
  const test::TempDir dir;
  for (const std::string& bad : {std::string("secr\x01t"), std::string("sécret"), std::string("secr\nt"),
                                 std::string("secr\0t", 6), std::string("\x7fsecr"), std::string(1025, 's')}) {
    REQUIRE(write_file_atomic(dir.path("token"), bad));
    const auto from_file = token_of(parsed({"--token-file", dir.path("token")}).launch);
    const auto from_environment = token_of(parsed({}, {{"DTRAIN_TOKEN", bad}}).launch);
    REQUIRE_FALSE(from_file);
    REQUIRE_FALSE(from_environment);
    CHECK(exit_code(from_file.error().code) == 2);
    CHECK(exit_code(from_environment.error().code) == 2);
    CHECK_THAT(from_file.error().text(), Contains("--token-file") && !Contains("secr") && !Contains("sss"));
    CHECK_THAT(from_environment.error().text(), Contains("DTRAIN_TOKEN") && !Contains("secr") && !Contains("sss"));
  }
  CHECK(token_of(parsed({}, {{"DTRAIN_TOKEN", "with blanks ~!"}}).launch) == "with blanks ~!");
}

TEST_CASE("every address except loopback needs a token", "[job]") {
  for (const char* address :
       {"127.0.0.1", "127.0.0.1:9091", "localhost", "localhost:1", "::1", "[::1]:9091", "unix:/a"}) {
    INFO(address);
    CHECK(is_loopback(address));
    CHECK(check_token_policy("", false, address));
    CHECK(check_token_to_join("", false, address));
  }
  for (const char* address :
       {"0.0.0.0", "0.0.0.0:9091", "10.0.0.1", "::", "[::]:1", "", "host", "127.example.org", "fe80::1"}) {
    INFO(address);
    CHECK_FALSE(is_loopback(address));
    CHECK(check_token_policy("token", false, address));
    CHECK(check_token_policy("", true, address));
    CHECK(check_token_to_join("token", false, address));
    CHECK(check_token_to_join("", true, address));
    CHECK(check_token_to_join("", false, address).error().code == Code::kDenied);
    const Result<> refused = check_token_policy("", false, address);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kDenied);
    CHECK_THAT(refused.error().message, Contains("--token-file") && Contains("DTRAIN_TOKEN") && Contains("--insecure"));
  }
}

TEST_CASE("each error code has its exit code", "[job]") {
  CHECK(exit_code(Code::kInternal) == 1);
  CHECK(exit_code(Code::kUsage) == 2);
  CHECK(exit_code(Code::kStartup) == 3);
  CHECK(exit_code(Code::kSchedulerLost) == 4);
  CHECK(exit_code(Code::kPeerLost) == 5);
  CHECK(exit_code(Code::kDenied) == 6);
  CHECK(exit_code(Code::kData) == 7);
  CHECK(exit_code(Code::kNotFound) == 7);
  CHECK(exit_code(Code::kDevice) == 8);
  CHECK(exit_code(Code::kPreempted) == 75);
}

TEST_CASE("the build id names version and commit", "[job]") {
  CHECK(build_id().starts_with(version()));
  CHECK(build_id().size() > version().size() + 1);
}

namespace {
Result<FoundData> knows_nothing(const Flags&) {
  return fail(Code::kNotFound, "no data set");
}

RecognizeDataSet finds(FoundData found) {
  return [found](const Flags&) { return found; };
}
}  // namespace

TEST_CASE("synthetic data have the shape that the network is made for", "[job]") {
  for (const char* network : {"cross-56", "dfnmr", "resnet-zscore", "inception-bn-28-small@v0.7", "small"}) {
    Flags flags = parsed({"--benchmark", "1", "--network", network});
    REQUIRE(apply_own_data_set(flags, knows_nothing));
    CHECK(flags.job.augment.data_type == "cifar10");
  }
  Flags flags = parsed({"--benchmark", "1", "--network", "inception-bn@v0.7"});
  REQUIRE(apply_own_data_set(flags, knows_nothing));
  CHECK(flags.job.augment.data_type == "imagenet");

  using Words = std::vector<std::string>;
  const auto image = [](const Words& network) {
    Words words = {"--benchmark", "1", "--network"};
    words.insert(words.end(), network.begin(), network.end());
    Flags synthetic = parsed(words);
    REQUIRE(apply_own_data_set(synthetic, knows_nothing));
    return synthetic.job.network.image_shape;
  };
  const std::vector<int64_t> digits = {1, 28, 28}, cifar = {3, 28, 28}, large = {3, 224, 224};
  for (const char* network : {"lenet", "mlp"}) CHECK(image({network}) == digits);
  for (const char* network : {"3conv", "cross-110", "resnet-28-small-20", "resnet-20", "resnet-v1-110", "resnetv1-56",
                              "resnet-20@mxnet-g", "resnet-164", "resnext-20", "resnet-v1.5-56"}) {
    INFO(network);
    CHECK(image({network}) == cifar);
  }
  CHECK(image({"resnet", "--num-layers", "20"}) == cifar);
  CHECK(image({"resnet-20", "--num-layers", "50"}) == large);
  for (const char* network : {"resnet", "resnet-v1", "resnet-50", "resnet-v1-101", "resnet-18@mxnet-g", "resnet-v1.5",
                              "resnext", "resnext-50", "googlenet@v0.7", "inception-bn-full"}) {
    INFO(network);
    CHECK(image({network}) == large);
  }
  for (const char* network : {"inception-v3", "inception-v3@v0.7"}) {
    CHECK(image({network}) == std::vector<int64_t>{3, 299, 299});
  }
  CHECK(image({"resnet-zscore"}) == std::vector<int64_t>{3, 32, 32});
  CHECK(image({"lenet", "--image-shape", "1,32,32"}) == std::vector<int64_t>{1, 32, 32});
}

TEST_CASE("a directory's data set sets what the flags leave open", "[job]") {
  Flags flags = parsed({"--data-dir", "/nowhere/at/all"});
  CHECK(apply_own_data_set(flags, knows_nothing).error().code == Code::kNotFound);
  const test::TempDir dir;
  flags = parsed({"--data-dir", dir.path().c_str()});
  CHECK(apply_own_data_set(flags, knows_nothing).error().message == "no data set");
  REQUIRE(apply_own_data_set(flags, finds({.name = "cifar100", .classes = 100, .image_shape = {3, 28, 28}})));
  CHECK(flags.job.network.num_classes == 100);
  CHECK(flags.job.augment.data_type == "cifar100");

  flags = parsed({"--data-dir", dir.path().c_str(), "--image-shape", "1,20,20"});
  REQUIRE(apply_own_data_set(flags, finds({.name = "idx", .classes = 47, .image_shape = {1, 28, 28}})));
  CHECK(flags.job.network.num_classes == 47);
  CHECK(flags.job.network.image_shape == std::vector<int64_t>{1, 20, 20});
  CHECK(flags.job.augment.scale == 1.0 / 255);
  CHECK(flags.job.augment.rgb_mean == std::vector<double>{0});
}

TEST_CASE("what the files of a data set do not tell must be given, and the error says what they have", "[job]") {
  const test::TempDir dir;
  const FoundData gaps = {.name = "records", .classes = 0, .image_shape = {}, .seen = "a.rec has gaps"};
  Flags flags = parsed({"--data-dir", dir.path().c_str()});
  const Error no_classes = apply_own_data_set(flags, finds(gaps)).error();
  CHECK(no_classes.code == Code::kUsage);
  CHECK(no_classes.message.find("a.rec has gaps") == 0);
  CHECK(no_classes.message.find("--num-classes") != std::string::npos);
  flags = parsed({"--data-dir", dir.path().c_str(), "--num-classes", "5"});
  const Error no_shape = apply_own_data_set(flags, finds(gaps)).error();
  CHECK(no_shape.message.find("--image-shape C,H,W (resnet was made for 3,224,224)") != std::string::npos);
  const FoundData gray = {
      .name = "records", .classes = 2, .image_shape = {}, .seen = "a.rec has gray ones", .channels = 1};
  flags = parsed({"--data-dir", dir.path().c_str()});
  CHECK(apply_own_data_set(flags, finds(gray))
            .error()
            .message.find("--image-shape 1,H,W (resnet was made for 3,224,224") != std::string::npos);
  const std::vector<const char*> both = {"--num-classes", "5", "--image-shape", "3,8,8"};
  flags = parsed({"--data-dir", dir.path().c_str(), both[0], both[1], both[2], both[3]});
  REQUIRE(apply_own_data_set(flags, finds(gaps)));
  CHECK(flags.job.augment.data_type == "records");
  CHECK(flags.job.augment.rgb_mean.size() == 3);
}

TEST_CASE("named files that only other processes have need no looking at if flags tell classes and shape", "[job]") {
  Flags flags = parsed({"--data-train", "a.rec", "--num-classes", "5", "--image-shape", "3,8,8"});
  flags.data.data_dir.clear();
  REQUIRE(apply_own_data_set(flags, knows_nothing));
  CHECK(flags.job.augment.data_type.empty());
  flags = parsed({"--data-train", "a.rec", "--num-classes", "5"});
  flags.data.data_dir.clear();
  CHECK(apply_own_data_set(flags, knows_nothing).error().message == "no data set");
}

TEST_CASE("a data set that was recognized is not one that the user chose", "[job]") {
  const test::TempDir dir;
  Flags flags = parsed({"--data-dir", dir.path().c_str(), "--data-type", "auto"});
  REQUIRE(apply_own_data_set(flags, finds({.name = "folder", .classes = 3, .image_shape = {3, 40, 40}})));
  CHECK(flags.job.augment.data_type == "folder");
  CHECK_FALSE(flags.given("data-type"));
}

TEST_CASE("the form of a data set may be named, and the files still tell the rest", "[job]") {
  const test::TempDir dir;
  Flags flags = parsed({"--data-dir", dir.path().c_str(), "--data-type", "folder"});
  REQUIRE(apply_own_data_set(flags, finds({.name = "folder", .classes = 3, .image_shape = {3, 40, 40}})));
  CHECK(flags.job.augment.data_type == "folder");
  CHECK(flags.job.network.num_classes == 3);
}

}  // namespace dtrain::job
