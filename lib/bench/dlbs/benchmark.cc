#include "bench/dlbs/benchmark.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/json.h"
#include "base/printable.h"
#include "job/flags/flags.h"
#include "job/flags/rows.h"
#include "job/flags/store.h"

namespace dtrain::bench {
namespace {

struct ModelRow {
  const char* id;
  const char* title;
  const char* network;
  int64_t edge;  // width and height of the model's images
};
constexpr std::array<ModelRow, 14> kModels = {{
    {"alexnet", "AlexNet", "alexnet", 227},
    {"googlenet", "GoogleNet", "googlenet", 224},
    {"inception3", "InceptionV3", "inception-v3", 299},
    {"resnet18", "ResNet18", "resnet-v1.5-18", 224},
    {"resnet34", "ResNet34", "resnet-v1.5-34", 224},
    {"resnet50", "ResNet50", "resnet-v1.5-50", 224},
    {"resnet101", "ResNet101", "resnet-v1.5-101", 224},
    {"resnet152", "ResNet152", "resnet-v1.5-152", 224},
    {"resnet200", "ResNet200", "resnet-v1.5-200", 224},
    {"resnet269", "ResNet269", "resnet-v1.5-269", 224},
    {"vgg11", "VGG11", "vgg-11", 224},
    {"vgg13", "VGG13", "vgg-13", 224},
    {"vgg16", "VGG16", "vgg-16", 224},
    {"vgg19", "VGG19", "vgg-19", 224},
}};
constexpr int64_t kClasses = 1000;

// A parameter that only MXNet or DLBS's own scripts use: the only value that it may have, as dlbs_text writes it (if it
// is "", the parameter must not have a value), and the reason.
struct Fixed {
  const char* name;
  const char* value;
  const char* why;
};
constexpr std::array kFixed = {
    Fixed{"exp.framework", "mxnet", "dtrain replaces only MXNet in DLBS, and no other framework"},
    Fixed{"exp.framework_family", "mxnet", "dtrain replaces only MXNet in DLBS, and no other framework"},
    Fixed{"exp.model_opts", "{}", "the models have no options"},
    Fixed{"exp.use_tensor_core", "True", "float16 always uses tensor cores where the GPU has them"},
    Fixed{"exp.ignore_past_errors", "True", "no list of batches that were too large is kept"},
    Fixed{"exp.sys_info", "", "dtrain collects no facts about the host"},
    Fixed{"mxnet.cudnn_autotune", "True", "cuDNN's algorithms are always measured"},
    Fixed{"mxnet.workspace", "1024", "dtrain plans its memory itself"},
    Fixed{"mxnet.input_layout", "", "dtrain chooses the layout itself"},
    Fixed{"mxnet.model_layout", "", "dtrain chooses the layout itself"},
    Fixed{"mxnet.nvidia_layers", "False", "dtrain fuses layers itself"},
    Fixed{"mxnet.use_dali", "False", "dtrain decodes images on the CPU"},
    Fixed{"monitor.frequency", "0", "dtrain has no resource monitor"},
};

// Parameters about DLBS's own scripts or MXNet's files, which must not be given.
constexpr std::array<const char*, 12> kForeign = {
    "mxnet.args",        "mxnet.env",          "mxnet.launcher",         "mxnet.bench_path",
    "mxnet.docker_args", "mxnet.docker_image", "mxnet.host_python_path", "mxnet.host_libpath",
    "runtime.launcher",  "runtime.python",     "runtime.cuda_cache",     "runtime.visible_gpus"};

Result<> check_fixed(const DlbsParameters& parameters) {
  for (const Fixed& fixed : kFixed) {
    const DlbsParameters::Parameter* parameter = parameters.find(fixed.name);
    if (parameter == nullptr || dlbs_text(parameter->value) == fixed.value) continue;
    return fail(Code::kUsage, "{}: {} is not possible: {}", fixed.name, json_text(parameter->value), fixed.why);
  }
  for (const char* name : kForeign) {
    if (!parameters.is_given(name)) continue;
    return fail(Code::kUsage, "{} is for DLBS's own scripts and has no effect in dtrain: leave it out", name);
  }
  for (const DlbsParameters::Parameter& parameter : parameters.all()) {
    if (!parameter.name.starts_with("runtime.env.")) continue;
    return fail(Code::kUsage, "{}: dtrain's processes inherit its environment, so set the variable there instead",
                parameter.name);
  }
  return {};
}

Result<int64_t> number_from(const DlbsParameters& parameters, const char* name, int64_t least, double most) {
  const int64_t number = parameters.integer(name);
  if (number >= least && static_cast<double>(number) <= most) return number;
  return fail(Code::kUsage, "{}: {} is not a number from {} to {:.0f}", name, number, least, most);
}

Result<> check_choice(const DlbsParameters& parameters, const char* name, const std::vector<std::string>& choices) {
  const std::string value = parameters.text(name);
  if (std::ranges::find(choices, value) != choices.end()) return {};
  return fail(Code::kUsage, "{}: there is no \"{}\"; choose from {}", name, printable(value), fmt::join(choices, ", "));
}

// The rank of this node. The first node may be marked by mxnet.scheduler instead of mxnet.rank.
Result<int64_t> rank_of(const DlbsParameters& parameters, int64_t nodes) {
  const bool schedules = parameters.boolean("mxnet.scheduler");
  const DlbsParameters::Parameter* given = parameters.find("mxnet.rank");
  if (given == nullptr) {
    if (schedules || nodes == 1) return 0;
    return fail(Code::kUsage,
                "mxnet.rank: the rank of this node is missing; give each of the {} nodes a different rank, from 0",
                nodes);
  }
  const std::string text = dlbs_text(given->value);
  int64_t rank = 0;
  if (!job::parse_value(text, rank) || rank < 0 || rank >= nodes) {
    return fail(Code::kUsage, "mxnet.rank: '{}' is not a number from 0 to {}, the ranks of {} nodes (exp.num_nodes)",
                printable(text), nodes - 1, nodes);
  }
  if (parameters.is_given("mxnet.scheduler") && schedules != (rank == 0)) {
    return fail(Code::kUsage,
                "mxnet.scheduler: the scheduler runs only on the node with rank 0, but this node has rank {}", rank);
  }
  return rank;
}

// The GPUs in exp.gpus. Each of them holds a replica of the network.
Result<std::vector<std::string>> gpus_of(const DlbsParameters& parameters) {
  const std::string text = parameters.text("exp.gpus");
  if (text.find(':') != std::string::npos) {
    return fail(Code::kUsage,
                "exp.gpus: '{}': a replica on several GPUs (with ':') is not possible; separate GPUs by ','",
                printable(text));
  }
  std::vector<std::string> gpus;
  std::string gpu;
  for (const char c : text + ",") {
    if (c != ',' && c != ' ') {
      gpu += c;
      continue;
    }
    constexpr size_t kDigitsMax = 4;
    if (gpu.find_first_not_of("0123456789") != std::string::npos || gpu.size() > kDigitsMax) {
      return fail(Code::kUsage, "exp.gpus: '{}' is not a list of numbers such as 0,1", printable(text));
    }
    if (!gpu.empty()) gpus.push_back(std::exchange(gpu, ""));
  }
  return gpus;
}

// Checks that parameters that follow from others do not contradict them: rates are computed from the number of samples
// that were really processed.
Result<> check_derived(const DlbsParameters& parameters, const DlbsBenchmark& benchmark, int64_t replicas) {
  const auto check = [&](const char* name, int64_t value) -> Result<> {
    if (parameters.integer(name) == value) return {};
    return fail(Code::kUsage,
                "{}: {} contradicts the other parameters, from which {} follows; change exp.gpus, exp.num_nodes or "
                "exp.replica_batch instead",
                name, parameters.integer(name), value);
  };
  DT_TRY_VOID(check("exp.num_local_replicas", replicas));
  DT_TRY_VOID(check("exp.num_replicas", replicas * benchmark.nodes));
  return check("exp.effective_batch", benchmark.worker_batch * benchmark.nodes);
}

Result<> choose_store(const DlbsParameters& parameters, DlbsBenchmark& benchmark) {
  const std::string given = parameters.text("mxnet.kv_store");
  if (given == "horovod") {
    return fail(Code::kUsage,
                "mxnet.kv_store: Horovod is not needed: nccl_allreduce sums the gradients of all nodes on GPUs, and "
                "allreduce on CPUs");
  }
  DT_TRY(const std::string name, job::canonical_store_name(given), "reading mxnet.kv_store");
  const job::Store store = job::store_by_name(name);
  benchmark.has_servers = store.servers;
  if (benchmark.nodes == 1 || store.servers || store.spans_workers()) return {};
  return fail(Code::kUsage,
              "mxnet.kv_store: {} is for one node, but exp.num_nodes is {}; choose dist_sync, dist_device_sync, "
              "dist_async, allreduce or nccl_allreduce",
              given, benchmark.nodes);
}

// The number of samples that all nodes together process in the whole benchmark.
int64_t samples_of(const DlbsBenchmark& benchmark) {
  return (benchmark.warmup_batches + benchmark.batches) * benchmark.worker_batch * benchmark.nodes;
}

// Limits the size of a benchmark, which also prevents an overflow in samples_of.
Result<> check_size(const DlbsBenchmark& benchmark) {
  const auto batches = static_cast<double>(benchmark.warmup_batches + benchmark.batches);
  const double samples = batches * static_cast<double>(benchmark.worker_batch) * static_cast<double>(benchmark.nodes);
  if (samples <= job::kExamplesMax) return {};
  return fail(Code::kUsage,
              "exp.num_batches: {} batches of {} nodes have {:.0f} samples, more than the limit of {:.0f}", batches,
              benchmark.nodes, samples, job::kExamplesMax);
}

// Inference uses one device, as in MXNet's program.
Result<> check_inference(const DlbsBenchmark& benchmark, const std::vector<std::string>& gpus) {
  if (benchmark.nodes > 1) {
    return fail(Code::kUsage, "exp.phase: inference is measured on one node, but exp.num_nodes is {}", benchmark.nodes);
  }
  if (gpus.size() <= 1) return {};
  return fail(Code::kUsage, "exp.phase: inference is measured on one GPU, and exp.gpus names {}", gpus.size());
}

Result<> check_dtype(const DlbsParameters& parameters, bool on_gpus) {
  const std::string dtype = parameters.text("exp.dtype");
  if (dtype == "int8") return fail(Code::kUsage, "exp.dtype: int8 is not possible; choose from float32, float16");
  DT_TRY_VOID(check_choice(parameters, "exp.dtype", {"float", "float32", "float16"}));
  if (dtype != "float16" || on_gpus) return {};
  return fail(Code::kUsage,
              "exp.dtype: float16 needs GPUs (exp.gpus); CPUs compute in float32: give exp.dtype=float32");
}

}  // namespace

Result<DlbsModel> dlbs_model(const std::string& id) {
  std::vector<std::string> ids;
  for (const ModelRow& row : kModels) {
    if (row.id == id) return DlbsModel{row.title, row.network, {3, row.edge, row.edge}};
    ids.emplace_back(row.id);
  }
  const std::string what =
      id.empty() ? "the model is missing" : fmt::format("dtrain does not have '{}'", printable(id));
  return fail(Code::kUsage, "exp.model: {}; choose from {}", what, fmt::join(ids, ", "));
}

Result<Rendezvous> parse_rendezvous(const std::string& text) {
  const auto bad = [&text] {
    return fail(Code::kUsage, "mxnet.rendezvous: '{}' is not HOST:PORT or INTERFACE:HOST:PORT", printable(text));
  };
  if (text.find("IP_ADDRESS") != std::string::npos) {
    return fail(Code::kUsage,
                "mxnet.rendezvous: '{}' is the placeholder of the template: give an address of the node with rank 0, "
                "such as 10.0.0.1:29500 or eth1:10.0.0.1:29500",
                printable(text));
  }
  Rendezvous rendezvous;
  std::string address = text;
  const bool v6 = text.ends_with(']') || text.find("]:") != std::string::npos;
  const size_t first = v6 ? text.find(":[") : text.find(':');
  if (first != std::string::npos && first > 0 && (v6 || text.find(':', first + 1) != std::string::npos)) {
    rendezvous.interface = text.substr(0, first);
    address = text.substr(first + 1);
  }
  Result<net::Endpoint> scheduler = net::parse_endpoint(address);
  if (!scheduler || scheduler->host.empty() || scheduler->port == 0) return bad();
  rendezvous.scheduler = *std::move(scheduler);
  return rendezvous;
}

Result<DlbsBenchmark> dlbs_benchmark(const DlbsParameters& parameters) {
  DT_TRY_VOID(check_fixed(parameters));
  DlbsBenchmark benchmark;
  DT_TRY(benchmark.model, dlbs_model(parameters.text("exp.model")));
  DT_TRY_VOID(check_choice(parameters, "exp.phase", {"training", "inference"}));
  benchmark.infers = parameters.text("exp.phase") == "inference";
  DT_TRY_VOID(check_choice(parameters, "exp.rerun", {"never", "always", "onfail"}));
  DT_TRY(benchmark.nodes, number_from(parameters, "exp.num_nodes", 1, job::kProcessesMax));
  DT_TRY(benchmark.rank, rank_of(parameters, benchmark.nodes));
  DT_TRY(benchmark.warmup_batches, number_from(parameters, "exp.num_warmup_batches", 0, job::kStepsMax / 2));
  DT_TRY(benchmark.batches, number_from(parameters, "exp.num_batches", 1, job::kStepsMax / 2));
  DT_TRY(const std::vector<std::string> gpus, gpus_of(parameters));
  DT_TRY(const int64_t batch, number_from(parameters, "exp.replica_batch", 1, job::kBatchMax));
  const auto replicas = std::max<int64_t>(1, std::ssize(gpus));
  benchmark.worker_batch = batch * replicas;
  if (static_cast<double>(benchmark.worker_batch) > job::kBatchMax) {
    return fail(Code::kUsage,
                "exp.replica_batch: {} for each of {} GPUs makes a batch of {} samples, more than the limit of {:.0f}",
                batch, gpus.size(), benchmark.worker_batch, job::kBatchMax);
  }
  DT_TRY_VOID(check_size(benchmark));
  DT_TRY_VOID(check_derived(parameters, benchmark, replicas));
  DT_TRY_VOID(check_dtype(parameters, !gpus.empty()));
  DT_TRY_VOID(choose_store(parameters, benchmark));
  if (benchmark.infers) {
    DT_TRY_VOID(check_inference(benchmark, gpus));
    if (!gpus.empty()) benchmark.gpu = std::stoi(gpus.front());
    if (parameters.text("exp.dtype") == "float16") benchmark.dtype = Type::kFloat16;
    benchmark.has_servers = false;
  }
  if (benchmark.distributed()) {
    DT_TRY(benchmark.rendezvous, parse_rendezvous(parameters.text("mxnet.rendezvous")));
  }
  return benchmark;
}

std::vector<std::string> training_flags_of(const DlbsBenchmark& benchmark, const DlbsParameters& parameters) {
  std::vector<std::string> flags;
  const auto add = [&flags](const char* flag, const std::string& value) { flags.insert(flags.end(), {flag, value}); };
  add("--network", benchmark.model.network);
  add("--num-classes", std::to_string(kClasses));
  add("--image-shape", fmt::format("{}", fmt::join(benchmark.model.image, ",")));
  add("--batch-size", std::to_string(benchmark.worker_batch));
  add("--kv-store", parameters.text("mxnet.kv_store"));
  add("--dtype", parameters.text("exp.dtype") == "float16" ? "float16" : "float32");
  const std::string gpus = parameters.text("exp.gpus");
  if (!gpus.empty()) add("--gpus", gpus);
  // Plain SGD, as in DLBS. The learning rate of DLBS, 0.01, makes the loss of googlenet on random images overflow
  // within six steps for one seed in twenty, which MXNet does not notice. The learning rate does not affect the speed.
  for (const char* flag : {"--mom", "--wd"}) add(flag, "0");
  add("--lr", "1e-6");
  add("--num-epochs", "1");
  add("--save-period", "0");
  add("--time-batches-after", std::to_string(benchmark.warmup_batches));
  const std::string data = parameters.text("exp.data_dir");
  if (data.empty()) {
    add("--benchmark", "1");
    add("--num-batches", std::to_string(benchmark.warmup_batches + benchmark.batches));
  } else {
    // --num-examples sets the length of the epoch to that of the benchmark: the records are used only in part, or
    // repeatedly.
    add("--data-train", data + "/train.rec");
    add("--num-examples", std::to_string(samples_of(benchmark)));
    add("--data-nthreads", std::to_string(parameters.integer("mxnet.preprocess_threads")));
    add("--prefetch-buffer", std::to_string(parameters.integer("mxnet.prefetch_buffer")));
  }
  if (!benchmark.distributed()) return flags;
  add("-n", std::to_string(benchmark.nodes));
  if (benchmark.has_servers) add("-s", std::to_string(benchmark.nodes));
  if (!benchmark.rendezvous.interface.empty()) add("-i", benchmark.rendezvous.interface);
  return flags;
}

BenchTrainOptions inference_of(const DlbsBenchmark& benchmark) {
  return {.network = benchmark.model.network,
          .batch_size = benchmark.worker_batch,
          .image = benchmark.model.image,
          .num_classes = kClasses,
          .phase = BenchTrainOptions::Phase::kInference,
          .num_batches = benchmark.batches,
          .num_warmup_batches = benchmark.warmup_batches,
          .gpu = benchmark.gpu,
          .dtype = benchmark.dtype};
}

Result<> check_owns_rendezvous(const Rendezvous& rendezvous) {
  if (net::is_this_host(rendezvous.scheduler.host)) return {};
  const std::vector<std::string> own = net::own_address_texts();
  return fail(Code::kUsage,
              "mxnet.rendezvous: rank 0 runs the scheduler at {}, which is not an address of this host ({}): start "
              "rank 0 on the host that has this address, or change the rendezvous",
              rendezvous.scheduler.host, own.empty() ? "127.0.0.1" : fmt::format("{}", fmt::join(own, ", ")));
}

}  // namespace dtrain::bench
