// What follows from a process's flags: network, data, devices, threads.
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "data/make_data_sets.h"
#include "job/flags/optimizers.h"
#include "job/resolve/data_set.h"
#include "job/resolve/resolve.h"
#include "role/process/membership.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/labels.h"
#include "role/setup/network.h"
#include "role/setup/threads.h"
#include "role/setup/update.h"
#include "role/worker/stores.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "sync/differing_keys.h"

using namespace dtrain;
using namespace dtrain::role;

// Each flag has a different value, so that swapped flags are noticed.
TEST_CASE("every augmentation flag sets its own field", "[role]") {
  const images::Distortion none = distortion_of({});
  CHECK_FALSE((none.is_affine() || none.color.any() || none.changes_floats() || none.random_resized_crop));
  job::AugmentFlags flags;
  flags.resize = job::Resize{40};
  flags.inter_method = 4;
  flags.max_random_rotate_angle = 11;
  flags.rotate = 12;
  flags.rotate_list = {13, -14};
  flags.max_random_shear_ratio = 0.15;
  flags.min_random_scale = 0.16;
  flags.max_random_scale = 1.7;
  flags.max_random_aspect_ratio = 0.18;
  flags.min_img_size = 19;
  flags.max_img_size = 2000;
  flags.min_crop_size = 21;
  flags.max_crop_size = 22;
  flags.min_random_area = 0.23;
  flags.max_random_area = 0.24;
  flags.max_random_h = 25;
  flags.max_random_s = 26;
  flags.max_random_l = 27;
  flags.brightness = 0.28;
  flags.contrast = 0.29;
  flags.saturation = 0.3;
  flags.pca_noise = 0.31;
  flags.max_random_contrast = 0.32;
  flags.max_random_illumination = 33;
  const images::Distortion all = distortion_of(flags);
  CHECK(all.resize == 40);
  CHECK(all.interpolation == images::Interpolation::kLanczos4);
  CHECK((all.rotate_max == 11 && all.rotate == 12 && all.rotate_list == std::vector<int>{13, -14}));
  CHECK(all.shear_max == 0.15);
  CHECK((all.scale.min == 0.16 && all.scale.max == 1.7));
  CHECK((all.aspect.min == 1 - 0.18 && all.aspect.max == 1.18));
  CHECK((all.img_size_min == 19 && all.img_size_max == 2000));
  CHECK((all.crop_size_min == 21 && all.crop_size_max == 22));
  CHECK((all.area.min == 0.23 && all.area.max == 0.24));
  CHECK((all.color.h_max == 25 && all.color.s_max == 26 && all.color.l_max == 27));
  CHECK((all.color.brightness == 0.28 && all.color.contrast == 0.29 && all.color.saturation == 0.3));
  CHECK(all.color.pca_noise == 0.31);
  CHECK((all.random_contrast == 0.32 && all.random_illumination == 33));
}

TEST_CASE("a relative --data-dir is prepended once to the names of data sets", "[role]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("x.rec"), 3, 8, 8, 3, 2);
  test::write_record_file(dir.path("y.rec"), 2, 8, 8, 3, 2);
  const std::string relative = std::filesystem::relative(dir.path()).string();
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  for (const auto& [train, validation] :
       {std::pair("--train-dataset", "--val-dataset"), {"--data-train", "--data-val"}}) {
    INFO(train);
    const auto parsed = job::parse_flags(
        {"--data-dir", relative, train, "x.rec", validation, "y.rec", "--image-shape", "3,8,8", "--num-classes", "2"},
        none);
    REQUIRE(parsed);
    const auto sets = open_data(parsed->flags, 0, Log::silent());
    INFO((sets ? "" : sets.error().text()));
    REQUIRE(sets);
    CHECK(sets->train->size() == 3);
    CHECK(sets->validation->size() == 2);
  }
}

TEST_CASE("class directories tell the number of classes, and their names go into the run directory", "[role]") {
  const test::TempDir dir;
  for (const char* directory : {"b", "a", "c"}) {
    std::filesystem::create_directories(dir.path(std::string("set/") + directory));
    test::write_bytes(dir.path(std::string("set/") + directory + "/1.png"),
                      test::must(images::encode_image(test::gradient_image(1, 2, 3, 1), ".png", 3)));
  }
  using test::must;
  job::Flags flags =
      must(job::parse_flags({"--data-dir", dir.path("set")}, [](const std::string&) { return std::nullopt; })).flags;
  must(apply_own_data_set(flags));
  CHECK(flags.job.augment.data_type == "folder");
  CHECK(flags.job.network.num_classes == 3);
  CHECK(flags.job.network.image_shape == std::vector<int64_t>{3, 1, 2});
  CHECK(flags.job.augment.resize == job::Resize{job::Resize::kFit});
  CHECK(flags.job.augment.val_resize == job::Resize{job::Resize::kFit});
  flags.job.seed = 1;
  must(introduce_data(flags, must(open_data(flags, 0, Log::silent())), dir.path(), Log::silent()));
  CHECK(must(read_file(dir.path("synset.txt"))) == "a\nb\nc\n");
}

// What only the data tell is left open by servers, so that it differs from no job.
TEST_CASE("a server, which does not see the data, agrees with the job in every form of data", "[role]") {
  const test::TempDir mnist, dir;
  test::write_mnist(mnist);
  test::write_cifar10(dir.path("cifar"));
  test::write_record_file(dir.path("train.rec"), 20, 6, 6, 3, 2);
  for (const char* directory : {"classes/a", "classes/b"}) test::write_images(dir.path(directory), 2);
  const auto flags_of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--num-workers", "1", "--num-servers", "1", "--scheduler", "localhost:9000"});
    return test::must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; })).flags;
  };
  const std::string server = job::text(job::requested(flags_of({"--role", "server"})));
  const std::vector<std::pair<std::string, std::string>> forms = {{"--data-dir", mnist.path("")},
                                                                  {"--data-dir", dir.path("cifar")},
                                                                  {"--data-train", dir.path("train.rec")},
                                                                  {"--data-dir", dir.path("classes")}};
  for (const auto& [flag, data] : forms) {
    INFO(data);
    job::Flags worker = flags_of({"--role", "worker", flag, data});
    test::must(complete_flags(worker));
    const std::string job = job::text(job::requested(worker));
    CHECK_THAT(job, !Catch::Contains("resize = auto"));
    CHECK(sync::membership::differing_keys(job, server).empty());
  }
}

TEST_CASE("images of class directories are fitted, each set for itself, unless a flag says otherwise", "[role]") {
  const auto completed = [](job::AnySize any_size, job::AugmentFlags flags) {
    job::complete_resize(any_size, flags);
    return std::pair{flags.resize->edge, flags.val_resize->edge};
  };
  using job::Resize;
  CHECK(completed({}, {}) == std::pair{Resize::kOff, Resize::kOff});
  CHECK(completed({true, true}, {}) == std::pair{Resize::kFit, Resize::kFit});
  CHECK(completed({false, true}, {}) == std::pair{Resize::kOff, Resize::kFit});
  job::AugmentFlags given;
  given.resize = Resize{};
  given.val_resize = Resize{40};
  CHECK(completed({true, true}, given) == std::pair{Resize::kOff, int64_t{40}});
  job::AugmentFlags crops;
  crops.random_resized_crop = true;
  CHECK(completed({true, true}, crops) == std::pair{Resize::kOff, Resize::kFit});
}

TEST_CASE("a list of labels for class directories is refused before the data set is recognized as records", "[role]") {
  const test::TempDir dir;
  for (const char* directory : {"set/a", "set/b"}) {
    std::filesystem::create_directories(dir.path(directory));
    test::write_text(dir.path(std::string(directory) + "/1.png"), "named as an image");
  }
  test::write_text(dir.path("a.lst"), "0\t1\ta/0.png\n");
  const auto none = [](const std::string&) { return std::nullopt; };
  job::Flags flags =
      test::must(job::parse_flags({"--data-dir", dir.path("set"), "--path-imglist", dir.path("a.lst")}, none)).flags;
  const Result<> refused = apply_own_data_set(flags);
  REQUIRE(!refused);
  CHECK_THAT(refused.error().message, Catch::Contains("the list assigns labels to records by their ids"));
}

// A run's data type is recorded, and later files of that run may have another form: the same images, packed.
TEST_CASE("--data-type refuses files of another form only if the user gave it for this start", "[role]") {
  const test::TempDir dir;
  for (const char* directory : {"set/a", "set/b"}) {
    std::filesystem::create_directories(dir.path(directory));
    test::write_bytes(dir.path(std::string(directory) + "/1.png"),
                      test::must(images::encode_image(test::gradient_image(8, 8, 3, 1), ".png", 3)));
  }
  const auto opened = [&](const std::string& type, job::Source source) {
    job::Flags flags =
        test::must(job::parse_flags({"--data-train", dir.path("set"), "--data-type", type}, [](const std::string&) {
          return std::nullopt;
        })).flags;
    flags.sources["data-type"] = source;
    flags.job.network.num_classes = 2;
    flags.job.network.image_shape = {3, 8, 8};
    const Result<> completed = apply_own_data_set(flags);
    if (!completed) return completed.error().message;
    const auto sets = open_data(flags, 0, Log::silent());
    return sets ? "opened as " + flags.job.augment.data_type : sets.error().message;
  };
  for (const job::Source given : {job::Source::kCommandLine, job::Source::kConfig, job::Source::kPreset}) {
    CHECK_THAT(opened("records", given),
               Catch::Contains("set: this is a directory of class directories, but --data-type"));
    CHECK(opened("folder", given) == "opened as folder");
  }
  CHECK(opened("records", job::Source::kResumed) == "opened as records");
  CHECK(opened("auto", job::Source::kCommandLine) == "opened as folder");
}

TEST_CASE("keys are numbered parameters first and statistics second", "[role]") {
  job::JobFlags flags;
  flags.network.network = "3conv";
  flags.network.num_classes = 10;
  flags.network.image_shape = {3, 28, 28};
  const Network network = *build_network(flags);
  const std::vector<uint64_t> sizes = key_sizes(network.shapes);
  REQUIRE(sizes.size() == 16 + 6);
  CHECK(sizes[0] == 32 * 3 * 5 * 5);
  CHECK(sizes[16] == 32);  // batchnorm0_moving_mean
}

TEST_CASE("a network with its own initial values refuses another initializer", "[role]") {
  job::JobFlags flags;
  flags.network.network = "resnet-zscore";
  flags.network.num_classes = 10;
  flags.network.image_shape = {3, 32, 32};
  CHECK(build_network(flags));
  flags.network.initializer = "xavier";
  const Result<Network> refused = build_network(flags);
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("defines the initial values of 'level2_block1_proj_weight'"));
}

TEST_CASE("flags select the width of cross and the stages of MXNet-G's resnet", "[role]") {
  job::JobFlags flags;
  flags.network.num_classes = 100;
  flags.network.image_shape = {3, 28, 28};
  flags.network.network = "cross";
  flags.network.widen_factor = 2;
  CHECK(build_network(flags)->shapes.parameter_elements() == 3545348);
  flags.network.network = "lenet";
  CHECK_THAT(build_network(flags).error().message, Catch::Contains("a fixed width"));
  flags.network.widen_factor = 1;
  flags.network.network = "resnet-20@mxnet-g";
  flags.network.image_shape = {3, 32, 32};
  flags.augment.data_type = "cifar10";
  CHECK(build_network(flags)->shapes.parameters.size() == 64);
}

TEST_CASE("the labels of the network are those of the data", "[role]") {
  graph::Shapes shapes;
  shapes.labels = {{.variable = {}, .name = "digit_label", .classes = 10},
                   {.variable = {}, .name = "parity_label", .classes = 2}};
  job::AugmentFlags flags;
  const auto listed = [&]() -> std::string {
    const auto labels = batch_labels(flags, shapes);
    if (!labels) return labels.error().message;
    std::string text;
    for (const data::BatchLabel& label : *labels) {
      text += fmt::format("{} {};", label.name, label.classes);
    }
    return text;
  };
  CHECK_THAT(listed(), Catch::Contains("the network uses 2 labels per image (digit_label, parity_label), but "
                                       "--label-width is 1: give --label-width 2"));
  flags.label_width = 2;
  CHECK(listed() == "digit_label 10;parity_label 2;");
}

// Only rank 0 writes checkpoints, so it must have the whole optimizer state when the store joins several workers.
TEST_CASE("the nccl store shards the update in one process and replicates it among several", "[role]") {
  const job::Store nccl = job::store_by_name("nccl");
  CHECK(update_place(nccl, 1) == kvstore::UpdateAt::kShards);
  CHECK(update_place(nccl, 2) == kvstore::UpdateAt::kReplicas);
}

// Every process draws the initial values for itself: the same seed gives the same values, another seed gives others.
TEST_CASE("initial values depend only on the seed", "[role]") {
  job::JobFlags flags;
  const auto draw = [&](uint64_t seed) {
    flags.seed = seed;
    std::vector<float> weight(60), gamma(5);
    const ParameterView view{.parameters = {{"fc_weight", ParameterKind::kWeight, {5, 12}, weight, {}},
                                            {"bn_gamma", ParameterKind::kGamma, {5}, gamma, {}}},
                             .statistics = {}};
    REQUIRE(initialize(flags, view));
    CHECK(gamma == std::vector<float>(5, 1.0F));
    return weight;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}

TEST_CASE("the processes of a host share its threads, and --threads overrides this", "[role]") {
  job::Flags flags;
  flags.launch.threads = 6;
  CHECK(plan_threads(flags).compute == 6);
  flags.data.data_threads = 5;
  CHECK(plan_threads(flags).decode == 5);
  flags.data.data_threads = 0;
  CHECK(plan_threads(flags).decode == 3);
  flags.device.gpus.numbers = {0, 1};  // each needs one thread
  CHECK(plan_threads(flags).decode == 4);
  flags.device.gpus.numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(plan_threads(flags).decode == 1);
  flags.device.gpus = {};
  flags.launch.threads = 0;
  flags.launch.role = job::Role::kWorker;
  flags.job.num_workers = flags.job.num_servers = 4096;
  CHECK(plan_threads(flags).compute == 1);
}

TEST_CASE("decode threads run on the sockets of the worker's GPUs if these have enough CPUs", "[role]") {
  const test::TempDir dir;
  const int cpu = sched_getcpu();
  const auto put = [&](const std::string& bus, const std::string& list) {
    std::filesystem::create_directories(dir.path(bus));
    std::ofstream(dir.path(bus + "/local_cpulist")) << list;
  };
  put("0000:3b:00.0", fmt::format("{}\n", cpu));
  put("0000:5e:00.0", "");
  const auto cpus = [&](std::vector<telemetry::UsedGpu> gpus, int threads) {
    return decode_cpus(gpus, {.decode = 1, .decode_max = threads}, dir.path());
  };
  const telemetry::UsedGpu near{.label = "0", .pci_bus_id = "0000:3B:00.0"};
  CHECK(cpus({near}, 1) == std::vector{cpu});
  CHECK(cpus({near}, 2).empty());
  CHECK(cpus({near, {.label = "1", .pci_bus_id = "0000:5E:00.0"}}, 1).empty());  // the other socket is not known
  CHECK(cpus({}, 1).empty());
}

TEST_CASE("the processes with the address of a process share its host", "[role]") {
  using rpc::Role;
  rpc::JoinReply reply;
  reply.nodes = {{.member = {Role::kWorker, 0}, .address = "10.0.0.1"},
                 {.member = {Role::kWorker, 1}, .address = "10.0.0.2"},
                 {.member = {Role::kWorker, 2}, .address = "10.0.0.2"},
                 {.member = {Role::kWorker, 3}, .address = "fe80::1"},
                 {.member = {Role::kServer, 0}, .address = "10.0.0.1:4000"},
                 {.member = {Role::kServer, 1}, .address = "10.0.0.2:4000"},
                 {.member = {Role::kServer, 2}, .address = "[fe80::1]:4000"}};
  const auto share = [&](Role role, uint32_t rank) {
    reply.rank = rank;
    const HostShare found = host_share(reply, role);
    return std::pair(found.workers, found.servers);
  };
  CHECK(share(Role::kWorker, 0) == std::pair<int64_t, int64_t>(1, 1));
  CHECK(share(Role::kWorker, 2) == std::pair<int64_t, int64_t>(2, 1));
  CHECK(share(Role::kServer, 1) == std::pair<int64_t, int64_t>(2, 1));
  CHECK(share(Role::kWorker, 3) == std::pair<int64_t, int64_t>(1, 1));
  CHECK(share(Role::kServer, 2) == std::pair<int64_t, int64_t>(1, 1));
}

TEST_CASE("a process that no launcher has told who shares its host goes by the table of members", "[role]") {
  job::LaunchFlags by_hand;
  set_host_roles({.workers = 2, .servers = 1}, by_hand);
  CHECK(by_hand.host_roles == 3);
  job::LaunchFlags launched;
  launched.host_roles = 5;
  set_host_roles({.workers = 2, .servers = 1}, launched);
  CHECK(launched.host_roles == 5);
}

TEST_CASE("a server has as many threads as its share of the host has, at most --reduce-threads", "[role]") {
  job::Flags flags;
  flags.launch.threads = 6;
  CHECK(shard_threads(flags, 4) == 4);
  CHECK(shard_threads(flags, 8) == 6);
}

TEST_CASE("each device of a worker has a name", "[role]") {
  job::Flags flags;
  flags.device.cpus = 2;
  CHECK(device_names(flags.device) == std::vector<std::string>{"cpu(0)", "cpu(1)"});
}

TEST_CASE("TF32 is off by default, and --tf32 is passed on to the executors", "[role]") {
  job::Flags flags;
  CHECK_FALSE(executor_options(flags, exec::Options::Purpose::kTraining).tf32);
  flags.device.tf32 = true;
  CHECK(executor_options(flags, exec::Options::Purpose::kTraining).tf32);
}

TEST_CASE("the flags of lbsgd give its batch and the rise of its rate", "[role]") {
  job::JobFlags flags;
  flags.num_workers = 2;
  flags.batch_size = 32;
  flags.optimizer.optimizer = "lbsgd";
  CHECK(optimizer_spec(flags).parameters == std::map<std::string, double>{{"batch_scale", 1}, {"lars", 0}});
  flags.optimizer.macrobatch_size = 129;
  flags.optimizer.warmup_epochs = 2;
  flags.optimizer.warmup_strategy = job::WarmupStrategy::kPower2;
  CHECK(optimizer_spec(flags).parameters == std::map<std::string, double>{{"batch_scale", 3}, {"lars", 0}});
  CHECK(schedule_spec(flags).large_batch.scale == 3);
  CHECK(optim::learning_rate(schedule_spec(flags), 1) == Approx(flags.optimizer.lr * 1.5));
  flags.optimizer.warmup_strategy = job::WarmupStrategy::kLars;
  CHECK(optim::uses_norms(optimizer_spec(flags)));
  CHECK(schedule_spec(flags).large_batch.scale == 1);
  flags.optimizer.optimizer = "sgd";
  CHECK(schedule_spec(flags).large_batch.scale == 1);
}

// The flag's table and the rules are in rooms that do not know each other.
TEST_CASE("the flag --optimizer has the rules, parameters and momenta that there are", "[role]") {
  CHECK(job::optimizer_kind_names() == optim::optimizer_names());
  job::JobFlags flags;
  for (const job::OptimizerKind& kind : job::optimizer_kinds()) {
    INFO(kind.name);
    if (kind.name == "lbsgd") continue;  // its parameters have flags of their own
    std::string parameters;
    for (const job::OptimizerParameter& p : kind.parameters)
      parameters += (parameters.empty() ? "" : ",") + p.name + "=0.5";
    flags.optimizer.optimizer = kind.name + (parameters.empty() ? "" : "(" + parameters + ")");
    const optim::OptimizerSpec spec = optimizer_spec(flags);
    CHECK(spec.name == kind.name);
    CHECK(spec.parameters.size() == kind.parameters.size());
    CHECK(optim::takes_momentum(spec) == kind.takes_momentum);
    flags.optimizer.optimizer = kind.name + "(nonesuch=0.5)";
    const std::string message = optim::parse_optimizer(flags.optimizer.optimizer).error().message;
    for (const job::OptimizerParameter& p : kind.parameters) CHECK_THAT(message, Catch::Contains(p.name));
    CHECK(std::ranges::count(message, ',') == std::max<std::ptrdiff_t>(std::ssize(kind.parameters) - 1, 0));
  }
}
