#include "job/resolve/resolve.h"

#include <fmt/ranges.h>

#include "job/flags/rows.h"
#include "job/parse.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

namespace dtrain::job {

using Catch::Matchers::Contains;
using test::must;

TEST_CASE("the option -n selects dist_sync with as many servers as workers", "[job]") {
  const Flags flags = parsed({"-n", "3"});
  CHECK(flags.job.scheme.kv_store == "dist_sync");
  CHECK(flags.job.num_servers == 3);
  CHECK(flags.distributed());
  CHECK(store_of(flags.job) == Store{Sum::kHost, true, Update::kStore, Scheme::kBsp});
  CHECK(parsed({"-n", "3", "-s", "2", "--kv-store", "dist"}).job.num_servers == 2);
  CHECK(parsed({"-n", "3", "--kv-store", "dist"}).job.scheme.kv_store == "dist_sync");
  CHECK(parsed({"--launcher", "local"}).job.num_servers == 1);  // --launcher means a job, here of one worker
}

TEST_CASE("with a host file the launcher is ssh", "[job]") {
  const Flags flags = parsed({"-n", "3", "-H", "hosts"});
  CHECK(flags.launch.launcher == "ssh");
  CHECK(flags.launch.hostfile == "hosts");
  CHECK(flags.launch.host_order == HostOrder::kSpread);
  CHECK(parsed({"-n", "3", "--host-file", "hosts", "--launcher", "ssh", "--dry-run", "--host-order", "pack"})
            .launch.host_order == HostOrder::kPack);
  CHECK(parsed({"-n", "3", "-H", "hosts", "--launcher", "local"}).launch.launcher == "local");
  CHECK(parsed({"-n", "3"}).launch.launcher == "local");
  // A process that is started by hand reads the host file for the groups.
  CHECK(parsed({"--role", "scheduler", "-n", "3", "-H", "hosts"}).launch.hostfile == "hosts");
  CHECK_THAT(refused({"-n", "3", "--launcher", "ssh"}), Contains("the list of hosts is missing (-H FILE)"));
  CHECK_THAT(refused({"-H", "hosts"}), Contains("the number of workers is missing (-n)"));
  CHECK_THAT(refused({"-n", "3", "--host-order", "pack"}), Contains("the host file is missing (-H FILE)"));
}

TEST_CASE("flags for launched processes need a launcher", "[job]") {
  for (const char* flag : {"--env", "--env-server", "--env-worker", "--env-file"}) {
    CHECK_THAT(refused({flag, "A"}), Contains("is for processes that a launcher starts"));
    CHECK_THAT(refused({flag, "A", "--role", "scheduler", "-n", "2"}), Contains("that a launcher starts"));
  }
  const LaunchFlags launch =
      parsed({"-n", "2", "--env", "A=1,2", "--env=B", "--env-server", "C:3", "--env-worker", "D="}).launch;
  CHECK(launch.env == std::vector<std::string>{"A=1,2", "B"});
  CHECK(launch.env_server == std::vector<std::string>{"C:3"});
  CHECK_THAT(refused({"-n", "2", "--env", "1A=1"}), Contains("--env: '1A' is not a valid name"));
  const Flags named = parsed({"-n", "2", "--env", "KEY=hush", "--env", "B"});
  CHECK_THAT(describe(named), Contains("env=KEY B") && !Contains("hush"));
}

TEST_CASE("the current directory is copied to an absolute path on other hosts", "[job]") {
  const LaunchFlags launch =
      parsed({"-n", "2", "-H", "hosts", "--sync-dst-dir", "/tmp/x", "--exclude", "a,b", "--exclude", "c"}).launch;
  CHECK(launch.sync_dst_dir == "/tmp/x");
  CHECK(launch.exclude == std::vector<std::string>{"a,b", "c"});
  CHECK_THAT(refused({"-n", "2", "--sync-dst-dir", "/tmp/x"}),
             Contains("the list of hosts to copy to is missing (-H FILE)"));
  CHECK_THAT(refused({"-n", "2", "-H", "hosts", "--sync-dst-dir", "x"}), Contains("give an absolute path"));
  CHECK_THAT(refused({"-n", "2", "-H", "hosts", "--exclude", "x"}), Contains("has no effect without"));
}

TEST_CASE("a process's address comes from --interface or --advertise, by precedence", "[job]") {
  CHECK(parsed({"-n", "2", "-i", "eth1,ib0"}).launch.interfaces == std::vector<std::string>{"eth1", "ib0"});
  const Variables both = {{"DMLC_INTERFACE", "eth1"}, {"DMLC_NODE_HOST", "10.0.0.1"}};
  CHECK(parsed({"-n", "2"}, {{"DMLC_INTERFACE", "eth1"}}).launch.interfaces == std::vector<std::string>{"eth1"});
  CHECK(parsed({"-n", "2"}, both).launch.interfaces.empty());
  CHECK(parsed({"-n", "2"}, both).launch.advertise == "10.0.0.1");
  CHECK(parsed({"-n", "2", "--dmlc-interface", "ib0"}, both).launch.advertise.empty());
  CHECK(parsed({"-n", "2", "--advertise", "h"}, both).launch.interfaces.empty());
  CHECK_THAT(refused({"-n", "2", "--advertise", "h", "-i", "eth1"}), Contains("give one of them"));
  CHECK_THAT(refused({"-i", "eth1"}), Contains("--interface is for a single process of a job"));
}

TEST_CASE("flags are removed from a command line with their values", "[job]") {
  const std::vector<std::string> line =
      test::command_line("-n 2 --env A --env=B=1 --dry-run 0 --lr=1 --network=--env -i x --shuffle 1 --shuffle -ix");
  CHECK(without_flags(line, {"env", "dry-run", "interface"}) ==
        std::vector<std::string>{"-n", "2", "--lr=1", "--network=--env", "--shuffle", "1", "--shuffle"});
  CHECK(without_flags(line, {}) == line);
}

TEST_CASE("stores are selected by their exact names", "[job]") {
  CHECK(parsed({"--kv-store", "local_allreduce_cpu"}).job.scheme.kv_store == "local");
  CHECK(parsed({"--kv-store", "local_allreduce_device"}).job.scheme.kv_store == "device");
  CHECK_THAT(refused({"--kv-store", "lcoal"}),
             Contains("there is no store 'lcoal', did you mean 'local'?") && Contains("dist_sync"));
  CHECK_THAT(refused({"-n", "2", "--kv-store", "dist_sycn"}), Contains("did you mean 'dist_sync'?"));
  CHECK_THAT(refused({"--kv-store", "Local"}), Contains("there is no store 'Local'"));
  CHECK(parsed({"-n", "2", "--kv-store", "dist_sync_device"}).job.scheme.kv_store == "dist_device_sync");
}

TEST_CASE("every store of the four schemes has its documented properties", "[job]") {
  const auto store = [](const char* name) {
    return store_of(parsed({"-n", "2", "--kv-store", name, "--ungrouped", "own"}).job);
  };
  const auto plain = [](const char* name) { return store_of(parsed({"-n", "2", "--kv-store", name}).job); };
  CHECK(plain("dist_async") == Store{Sum::kHost, true, Update::kStore, Scheme::kAsp});
  CHECK(plain("dist_device_async") == Store{Sum::kDevice, true, Update::kStore, Scheme::kAsp});
  CHECK(plain("dist_ssync") == Store{Sum::kHost, true, Update::kStore, Scheme::kSsp});
  CHECK(plain("dist_device_ssync") == Store{Sum::kDevice, true, Update::kStore, Scheme::kSsp});
  CHECK(store("dist_gsync") == Store{Sum::kHost, true, Update::kStore, Scheme::kGsp});
  CHECK(store("dist_device_gsync") == Store{Sum::kDevice, true, Update::kStore, Scheme::kGsp});
  for (const char* name : {"dist_async", "dist_ssync", "dist_device_gsync"}) {
    CHECK_THAT(refused({"-n", "2", "--kv-store", name, "--update-on", "worker"}), Contains("do not share one sum"));
    CHECK_THAT(refused({"--kv-store", name}), Contains("-n and -s"));
  }
}

TEST_CASE("impossible numbers of workers and servers are usage errors", "[job]") {
  CHECK_THAT(refused({"-n", "0"}), Contains("-n: 0 is less than 1"));
  CHECK_THAT(refused({"-n", "-2"}), Contains("less than 1"));
  CHECK_THAT(refused({"-n", "2", "-s", "0"}), Contains("at least one server"));
  CHECK_THAT(refused({"-n", "2", "--kv-store", "local"}), Contains("train independently"));
  CHECK_THAT(refused({"-n", "2", "--kv-store", "device"}), Contains("train independently"));
  CHECK_THAT(refused({"-s", "2", "--kv-store", "local"}), Contains("no servers"));
  CHECK(store_of(parsed({"-n", "2", "--update-on", "worker"}).job).update == Update::kWorker);
  CHECK(store_of(parsed({"-n", "2"}).job).update == Update::kStore);
  CHECK_THAT(refused({"--kv-store", "dist_sync"}), Contains("-n and -s"));
  CHECK_FALSE(parsed({"-n", "1", "--kv-store", "local"}).distributed());
}

TEST_CASE("rules that need the norms of whole arrays update on the workers", "[job]") {
  CHECK(store_of(parsed({"-n", "2", "--optimizer", "lars(eta=0.01)"}).job).update == Update::kWorker);
  CHECK(store_of(parsed({"--kv-store", "nccl", "--optimizer", "lars"}).job).update == Update::kWorker);
  for (const char* store : {"dist_async", "dist_ssync"}) {
    CHECK_THAT(refused({"-n", "2", "--kv-store", store, "--optimizer", "lars"}), Contains("norms of whole arrays"));
  }
  CHECK_THAT(refused({"-n", "2", "--update-on", "store", "--optimizer", "lars"}),
             Contains("without --update-on store"));
  CHECK_THAT(refused({"-n", "3", "--backup", "1", "--optimizer", "lars"}), Contains("would miss updates"));
  CHECK(store_of(parsed({"--gpus", "0,1", "--optimizer", "lars"}).job).update == Update::kWorker);
  CHECK_THAT(refused({"--optimizer", "lars(momentum_correction=2)"}), Contains("from 0 to 1"));
}

TEST_CASE("stores with a fixed place of the update refuse --update-on", "[job]") {
  CHECK_THAT(refused({"--kv-store", "nccl", "--update-on", "worker"}), Contains("use nccl_allreduce"));
  CHECK_THAT(refused({"--kv-store", "nccl_allreduce", "--update-on", "store"}),
             Contains("only the workers can update"));
  CHECK_THAT(refused({"-n", "2", "--kv-store", "allreduce", "--update-on", "store"}),
             Contains("only the workers can update"));
  CHECK(store_of(parsed({"--kv-store", "nccl", "--update-on", "store"}).job).update == Update::kStore);
  CHECK(store_of(parsed({"--kv-store", "allreduce", "--update-on", "worker"}).job).update == Update::kWorker);
  CHECK(store_of(parsed({"--kv-store", "local", "--update-on", "worker"}).job).update == Update::kWorker);
}

TEST_CASE("allreduce stores have no servers", "[job]") {
  for (const char* name : {"allreduce", "nccl", "nccl_allreduce"}) {
    const Flags flags = parsed({"-n", "3", "--kv-store", name});
    CHECK(flags.distributed());
    CHECK(flags.job.num_servers == 0);
    CHECK_THAT(refused({"-n", "3", "-s", "1", "--kv-store", name}), Contains("no servers"));
    CHECK_THAT(refused({"--role", "server", "--scheduler", "a:1", "-n", "3", "--kv-store", name}),
               Contains("no servers"));
    CHECK_FALSE(parsed({"--kv-store", name}).distributed());
    CHECK(parsed({"--role", "worker", "--scheduler", "a:1", "-n", "1", "--kv-store", name}).distributed());
  }
}

TEST_CASE("the work load list has one positive number for each device", "[job]") {
  CHECK(parsed({}).device.cpus == 1);
  CHECK(parsed({"--cpus", "3", "--work-load-list", "3,1,2"}).device.work_load_list == std::vector<double>{3, 1, 2});
  CHECK_THAT(refused({"--cpus", "0"}), Contains("--cpus"));
  CHECK_THAT(refused({"--cpus", "3", "--work-load-list", "1,2"}), Contains("2 numbers for 3 devices"));
  CHECK_THAT(refused({"--cpus", "2", "--work-load-list", "1,0"}), Contains("above 0"));
}

TEST_CASE("GPUs allow half precision and a loss scale", "[job]") {
  const Flags flags = parsed({"--gpu", "1,0", "--dtype", "float16", "--work-load-list", "2,1"});
  CHECK(flags.device.gpus.numbers == std::vector<int64_t>{1, 0});
  CHECK(flags.device.count() == 2);
  CHECK(flags.job.loss_scale == "dynamic");
  CHECK(parsed({"--gpus", "0", "--dtype", "bfloat16"}).job.loss_scale == "none");
  CHECK(parsed({"--gpus", "0", "--dtype", "float16", "--loss-scale", "128"}).job.loss_scale == "128");
  CHECK(parsed({}).job.loss_scale == "none");
  CHECK_THAT(refused({"--loss-scale", "dynamic"}), Contains("not with --dtype float32"));
  CHECK_THAT(refused({"--gpus", "0", "--dtype", "float16", "--loss-scale", "big"}), Contains("number from 1"));
  CHECK_THAT(refused({"--gpus", "0", "--cpus", "2"}), Contains("exclude each other"));
  CHECK_THAT(refused({"--gpus", "0,0"}), Contains("twice"));
  CHECK_THAT(refused({"--gpus", "-1"}), Contains("--gpus"));
}

TEST_CASE("a process started by hand needs its role and the scheduler's address", "[job]") {
  const Flags flags = parsed({"--role", "server", "--scheduler", "10.0.0.1:9091", "-n", "2", "-s", "3", "--rank", "2"});
  CHECK(flags.launch.role == Role::kServer);
  CHECK(flags.launch.rank == 2);
  CHECK(flags.job.scheme.kv_store == "dist_sync");
  CHECK_THAT(refused({"--role", "worker", "-n", "2"}), Contains("--scheduler"));
  CHECK_THAT(refused({"--role", "worker", "--scheduler", "a:1"}), Contains("-n"));
  CHECK_THAT(refused({"--role", "wroker", "--scheduler", "a:1", "-n", "1"}), Contains("did you mean 'worker'?"));
  CHECK_THAT(refused({"--role", "worker", "--scheduler", "nowhere", "-n", "1"}), Contains("HOST:PORT"));
  CHECK_THAT(refused({"--role", "worker", "--scheduler", "a:70000", "-n", "1"}), Contains("HOST:PORT"));
  CHECK_THAT(refused({"--role", "worker", "--scheduler", "a:1", "-n", "2", "--rank", "2"}), Contains("2 workers"));
  CHECK_THAT(refused({"--role", "worker", "--scheduler", "a:1", "-n", "1", "--kv-store", "local"}),
             Contains("dist_sync"));
  CHECK_THAT(refused({"--rank", "1"}), Contains("--role"));
  CHECK_THAT(refused({"--port", "9091"}), Contains("--role"));
  CHECK(parsed({"-n", "2", "--port", "9091"}).launch.port == 9091);  // the launcher's scheduler takes it
  CHECK_THAT(refused({"--role", "scheduler", "-n", "1", "--port", "9", "--port-range", "9-10"}), Contains("exclude"));
  CHECK(parsed({"--role", "scheduler", "-n", "1", "--port-range", "9100-9200"}).launch.port_last == 9200);
  for (const char* text : {"5", "5-", "-5", "9-8", "0-5", "1-70000", "5:9", "5-6-7", ""}) {
    CHECK_THAT(refused({std::string("--port-range=") + text}),
               Contains(std::string("--port-range: '") + text + "' does not have the form FIRST-LAST") &&
                   Contains("a single port is --port N"));
  }
}

TEST_CASE("a tracker's environment variables describe the process", "[job]") {
  const Variables tracker = {
      {"DMLC_ROLE", "worker"},          {"DMLC_NUM_WORKER", "2"},      {"DMLC_NUM_SERVER", "1"},
      {"DMLC_PS_ROOT_URI", "10.0.0.1"}, {"DMLC_PS_ROOT_PORT", "9091"}, {"DMLC_NODE_HOST", "10.0.0.7"},
      {"DMLC_WORKER_ID", "1"},          {"PS_VERBOSE", "2"},           {"DTRAIN_TOKEN", "secret"}};
  const Flags flags = parsed({}, tracker);
  CHECK(flags.launch.role == Role::kWorker);
  CHECK(flags.job.num_workers == 2);
  CHECK(flags.job.num_servers == 1);
  CHECK(flags.launch.scheduler == "10.0.0.1:9091");
  CHECK(flags.launch.advertise == "10.0.0.7");
  CHECK(flags.launch.rank == 1);
  CHECK(flags.launch.verbose == 2);
  CHECK(flags.launch.token == "secret");
  CHECK(flags.job.scheme.kv_store == "dist_sync");
  CHECK(parsed({"--rank", "0"}, tracker).launch.rank == 0);  // flags win
  CHECK_THAT(refused({}, Code::kUsage, {{"DMLC_ROLE", "boss"}}), Contains("DMLC_ROLE") && Contains("environment"));
}

TEST_CASE("the local tracker's task numbers count workers first", "[job]") {
  Variables tracker = {{"DMLC_ROLE", "server"},       {"DMLC_NUM_WORKER", "3"},
                       {"DMLC_NUM_SERVER", "2"},      {"DMLC_PS_ROOT_URI", "127.0.0.1"},
                       {"DMLC_PS_ROOT_PORT", "9091"}, {"DMLC_JOB_CLUSTER", "local"},
                       {"DMLC_TASK_ID", "4"}};
  CHECK(parsed({}, tracker).launch.rank == 1);
  tracker["DMLC_JOB_CLUSTER"] = "sge";  // counts tasks differently, so the scheduler assigns the rank
  CHECK_FALSE(parsed({}, tracker).launch.rank);
}

TEST_CASE("environment variables with other values are translated", "[job]") {
  CHECK(parsed({"-n", "2"}, {{"MXNET_UPDATE_ON_KVSTORE", "0"}}).job.scheme.update_on == UpdateOn::kWorker);
  CHECK(parsed({"-n", "2"}, {{"MXNET_UPDATE_ON_KVSTORE", "1"}}).job.scheme.update_on == UpdateOn::kAuto);
  CHECK(parsed({"-n", "2"}, {{"MXNET_KVSTORE_BIGARRAY_BOUND", "500"}}).job.scheme.bigarray_bound == 500);
  CHECK(parsed({"-n", "2"}, {{"MXNET_KVSTORE_REDUCTION_NTHREADS", "2"}}).job.scheme.reduce_threads == 2);
  const Result<Parsed> noted = parse_flags({"--benchmark", "1"}, variables({{"DMLC_LOCAL", "1"}}));
  REQUIRE(noted);
  REQUIRE(noted->notes.size() == 1);
  CHECK_THAT(noted->notes[0], Contains("DMLC_LOCAL"));
}

TEST_CASE("variables that are left over from another job are named where they change what is started", "[job]") {
  const auto notes = [](const std::vector<std::string>& arguments, const Variables& set) {
    const Result<Parsed> parsed = parse_flags(arguments, variables(set));
    REQUIRE(parsed);
    return fmt::format("{}", fmt::join(parsed->notes, "\n"));
  };
  Variables left = {{"DMLC_ROLE", "worker"},
                    {"DMLC_PS_ROOT_URI", "h"},
                    {"DMLC_PS_ROOT_PORT", "1"},
                    {"DMLC_NUM_WORKER", "3"},
                    {"DMLC_NUM_SERVER", "1"}};
  CHECK(notes({"--benchmark", "1"}, left) ==
        "the environment variable DMLC_ROLE makes this process a worker of a job that another program starts; to train "
        "here, unset the variable");
  CHECK(notes({"-n", "2", "-s", "2", "--benchmark", "1"}, left) ==
        "the environment variable DMLC_ROLE makes this process a worker of a job that another program starts; to start "
        "a job here, unset the variable");
  CHECK(notes({"-n", "2", "-s", "2", "--role", "worker", "--benchmark", "1"}, left).empty());
  left["DMLC_JOB_CLUSTER"] = "ssh";
  CHECK(notes({"-n", "2", "-s", "2", "--benchmark", "1"}, left).empty());
  CHECK(notes({"--benchmark", "1"}, {{"DMLC_NUM_WORKER", "3"}, {"DMLC_NUM_SERVER", "1"}}) ==
        "the environment variable DMLC_NUM_WORKER makes this a job of 3 workers; unset it to train in one process\n"
        "this job takes DMLC_NUM_SERVER=1 from the environment; unset variables that are left from another job");
  CHECK(
      notes({"-n", "2", "-s", "2", "--benchmark", "1"}, {{"DMLC_NUM_WORKER", "3"}, {"DMLC_NUM_SERVER", "1"}}).empty());
}

TEST_CASE("an error about the flags names the variables that set some of them", "[job]") {
  const auto error = [](const std::vector<std::string>& arguments, const Variables& set) {
    return parse_flags(arguments, variables(set)).error().text();
  };
  CHECK_THAT(error({"--benchmark", "1"}, {{"DMLC_ROLE", "worker"}}),
             Contains("--role worker: the number of workers is missing") &&
                 Contains("while taking DMLC_ROLE=worker from the environment"));
  CHECK_THAT(error({"--benchmark", "1"}, {{"DMLC_NUM_SERVER", "2"}}),
             Contains("while taking DMLC_NUM_SERVER=2 from the environment"));
  CHECK_THAT(error({"--benchmark", "1", "--kv-store", "dist_sync"}, {}), !Contains("environment"));
}

TEST_CASE("a flag that takes a path refuses an empty one, and names itself", "[job]") {
  for (const Row& row : training_flags().rows()) {
    if (!is_path(row.value) || row.may_be_empty) continue;
    INFO(row.name);
    CHECK_THAT(refused({row.spelling() + "="}), Contains(row.spelling() + ": the value is empty: give " + row.value));
  }
  for (const char* flag : {"data-train", "data-val", "data-dir", "config", "resume", "hostfile", "mean-img",
                           "model-prefix", "pretrained-model", "network", "run-dir", "tls-cert", "groups-file"}) {
    INFO(flag);
    CHECK(is_path(training_flags().rows()[must(training_flags().find(std::string("--") + flag))].value));
  }
}

TEST_CASE("equivalent flags give the same learning-rate schedule", "[job]") {
  const auto schedule = [](std::vector<std::string> arguments) { return parsed(std::move(arguments)).job.optimizer; };
  // gsp_cifar10_inception_small: lr .1, .094, .08836 for epochs 0, 1, 2
  const OptimizerFlags golden = schedule({"--lr", "0.1", "--lr-factor", "0.94"});
  CHECK(golden.lr == 0.1);
  CHECK(golden.lr_factor == 0.94);
  CHECK(golden.lr_factor_epoch == 1);
  CHECK(golden.lr_step_epochs.empty());
  CHECK(golden.lr * *golden.lr_factor * *golden.lr_factor == Approx(0.08836));

  CHECK(schedule({"--lr-step-epochs", "30,60"}).lr_factor == 0.1);
  CHECK(schedule({"--lr-step-epochs", "30,60"}).lr_factor_epoch == 0);
  CHECK(schedule({"--lr-step-epochs", "30,60", "--lr-factor", ".5"}).lr_factor == 0.5);
  CHECK(schedule({"--lr-factor", ".5", "--lr-factor-epoch", "2.5"}).lr_factor_epoch == 2.5);
  CHECK(schedule({"--lr-factor", "1", "--lr-factor-epoch", "1"}).lr_factor_epoch == 0);  // constant
  CHECK(schedule({"--lr-factor", "1.5", "--lr-step-epochs", "3"}).lr_factor == 1);
  CHECK_THAT(refused({"--lr-factor-epoch", "2"}), Contains("--lr-factor-epoch needs --lr-factor"));
  CHECK_THAT(refused({"--lr-factor", "0"}), Contains("above 0"));
  CHECK_THAT(refused({"--lr-step-epochs", "60,30"}), Contains("ascending order"));
}

TEST_CASE("the step epochs or the factor epoch are taken from the source of higher precedence", "[job]") {
  const std::string both = refused({"--lr-factor", ".5", "--lr-step-epochs", "3", "--lr-factor-epoch", "2"});
  CHECK_THAT(both, Contains("--lr-step-epochs") && Contains("--lr-factor-epoch"));
  // The preset has a step at epoch 10. The command line's --lr-factor-epoch replaces it and keeps the preset's factor.
  const OptimizerFlags every = parsed({"--preset", "mnist", "--lr-factor-epoch", "2"}).job.optimizer;
  CHECK(every.lr_step_epochs.empty());
  CHECK(every.lr_factor_epoch == 2);
  CHECK(every.lr_factor == 0.1);
  const OptimizerFlags steps = parsed({"--preset", "mnist", "--lr-step-epochs", "5"}).job.optimizer;
  CHECK(steps.lr_step_epochs == std::vector<double>{5});
}

TEST_CASE("polynomial and cosine schedules are asked for by name or by power", "[job]") {
  const auto schedule = [](std::vector<std::string> arguments) { return parsed(std::move(arguments)).job.optimizer; };
  const OptimizerFlags named = schedule({"--lr-scheduler", "poly"});
  CHECK(named.lr_scheduler == LrScheduler::kPoly);
  CHECK(named.lr_power == 2);
  CHECK(named.lr_factor == 1);
  CHECK(schedule({"--lr-step-epochs", "pow2"}).lr_scheduler == LrScheduler::kPoly);
  CHECK(schedule({"--lr-step-epochs", "pow1.5", "--lr-scheduler", "poly"}).lr_power == 1.5);
  CHECK(text(requested(parsed({"-n", "2", "--lr-scheduler", "poly"}))) ==
        text(requested(parsed({"-n", "2", "--lr-step-epochs", "pow2"}))));
  CHECK(schedule({"--lr-scheduler", "cosine"}).lr_scheduler == LrScheduler::kCosine);
  CHECK(schedule({"--lr-scheduler", "cosine"}).lr_power == 0);
  // The steps of a preset give way, and a preset's steps can be asked for by name.
  const OptimizerFlags over_preset = schedule({"--preset", "mnist", "--lr-scheduler", "cosine"});
  CHECK(over_preset.lr_scheduler == LrScheduler::kCosine);
  CHECK(over_preset.lr_step_epochs.empty());
  CHECK(schedule({"--preset", "mnist", "--lr-step-epochs", "pow2"}).lr_factor == 1);
  CHECK(schedule({"--preset", "mnist", "--lr-scheduler", "multifactor"}).lr_scheduler == LrScheduler::kAuto);
  CHECK(schedule({"--lr-factor", ".5", "--lr-scheduler", "factor"}).lr_factor_epoch == 1);

  CHECK_THAT(refused({"--lr-scheduler", "cosine", "--lr-step-epochs", "3"}), Contains("--lr-scheduler cosine and"));
  CHECK_THAT(refused({"--lr-step-epochs", "pow2", "--lr-factor", ".5"}), Contains("--lr-step-epochs powP and"));
  CHECK_THAT(refused({"--lr-scheduler", "cosine", "--lr-step-epochs", "pow2"}), Contains("is a polynomial"));
  CHECK_THAT(refused({"--lr-scheduler", "factor"}), Contains("needs --lr-factor"));
  CHECK_THAT(refused({"--lr-scheduler", "multifactor"}), Contains("needs --lr-step-epochs"));
  CHECK_THAT(refused({"--lr-scheduler", "cosin"}), Contains("did you mean 'cosine'?"));
  for (const char* power : {"pow", "pow0", "pow-1", "powx", "pow1e9", "pownan"}) {
    CHECK_THAT(refused({"--lr-step-epochs", power}), Contains("powP with a power P above 0"));
  }
}

TEST_CASE("a warm-up must rise, and end before the schedule does", "[job]") {
  const OptimizerFlags flags =
      parsed({"--lr-warmup-epochs", "2.5", "--lr-warmup-begin", ".01", "--lr", ".5"}).job.optimizer;
  CHECK(flags.lr_warmup_epochs == 2.5);
  CHECK(flags.lr_warmup_begin == 0.01);
  CHECK_THAT(refused({"--lr-warmup-begin", ".01"}), Contains("has no effect without --lr-warmup-epochs"));
  CHECK_THAT(refused({"--lr-warmup-epochs", "1", "--lr-warmup-begin", ".2", "--lr", ".1"}),
             Contains("must not be above --lr"));
  CHECK_THAT(refused({"--lr-warmup-epochs", "5", "--num-epochs", "5", "--lr-scheduler", "poly"}),
             Contains("needs epochs after the warm-up"));
}

// With one default rate for all networks, lenet did not learn from one seed in seven.
TEST_CASE("the default learning rate is that of the network's script", "[job]") {
  const auto rate = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--data-dir", "."});
    return parsed(std::move(words)).job.optimizer.lr;
  };
  for (const char* network : {"lenet", "mlp", "3conv", "resnet-20", "inception-bn-28-small", "cross-20"}) {
    INFO(network);
    CHECK(rate({"--network", network}) == 0.05);
    CHECK(rate({"--network", network, "--lr", "0.1"}) == 0.1);
  }
  CHECK(rate({"--network", "resnet", "--num-layers", "110"}) == 0.05);
  for (const char* network : {"resnet", "resnet-50", "resnet-v1-18", "inception-bn", "resnet-zscore"}) {
    INFO(network);
    CHECK(rate({"--network", network}) == 0.1);
  }
  CHECK(rate({"--preset", "mxnet-g-mnist", "--network", "lenet"}) == 0.1);  // a preset keeps its own rate
}

TEST_CASE("the step of the time-to-accuracy log is between 0 and 1", "[job]") {
  CHECK(parsed({"--log-time-to", ".05"}).loop.log_time_to == 0.05);
  CHECK(parsed({}).loop.log_time_to == 0);
  CHECK_THAT(refused({"--log-time-to", "5"}), Contains("--log-time-to: 5 is more than 1"));
  CHECK_THAT(refused({"--log-time-to", "-.1"}), Contains("--log-time-to"));
}

TEST_CASE("the option --retrain of MXNet-G means --load-epoch or --resume", "[job]") {
  CHECK(parsed({"--retrain", "--model-load-epoch", "3"}).loop.load_epoch == 3);
  CHECK(parsed({"--retrain"}).loop.resume == "auto");
  CHECK_THAT(refused({"--load-epoch", "3", "--resume", "auto"}), Contains("exclude"));
  CHECK_THAT(refused({"--load-epoch", "3", "--num-epochs", "3"}), Contains("--num-epochs"));
}

TEST_CASE("heartbeat intervals and timeouts out of range are refused", "[job]") {
  CHECK_THAT(refused({"--heartbeat-interval", "50ms"}), Contains("--heartbeat-interval"));
  CHECK_THAT(refused({"--heartbeat-interval", "4s"}), Contains("at least 3 times the --heartbeat-interval"));
  CHECK(parsed({"--heartbeat-interval", "100ms", "--heartbeat-timeout", "300ms"}).wire.heartbeat_timeout.count() ==
        300);
}

TEST_CASE("training data or --benchmark is required", "[job]") {
  const Result<Parsed> nothing = parse_flags({"--network", "lenet"}, variables({}));
  REQUIRE_FALSE(nothing);
  CHECK_THAT(nothing.error().text(), Contains("--data-dir") && Contains("--benchmark"));
  CHECK(parse_flags({"--benchmark", "1"}, variables({})));
  CHECK(parse_flags({"--role", "scheduler", "-n", "1"}, variables({})));  // reads none
  CHECK_THAT(refused({"--num-batches", "3"}), Contains("--benchmark"));
}

TEST_CASE("only workers that step together validate within an epoch", "[job]") {
  CHECK(parsed({"--eval-batches-interval", "10"}).job.eval_batches_interval == 10);
  CHECK(parsed({"-n", "2", "--eval-batches-interval", "10"}).job.eval_batches_interval == 10);
  CHECK_THAT(
      refused({"-n", "2", "--kv-store", "dist_async", "--eval-batches-interval", "10"}),
      Catch::Contains("--eval-batches-interval 10") && Catch::Contains("dist_async can only validate at the end"));
  CHECK_THAT(refused({"-n", "3", "--backup", "1", "--eval-batches-interval", "10"}), Catch::Contains("--backup"));
}

TEST_CASE("with a pretrained model, --load-epoch names that model's epoch", "[job]") {
  Flags flags = parsed({"--pretrained-model", "runs/a/net", "--load-epoch", "12", "--num-epochs", "3"});
  CHECK(flags.loop.pretrained_epoch == 12);
  CHECK_FALSE(flags.loop.load_epoch);
  CHECK(flags.job.network.layer_before_fullc == "auto");
  flags = parsed({"--pretrained-model", "a.params", "--layer-before-fullc", "flatten0"});
  CHECK(flags.job.network.layer_before_fullc == "flatten0");
  CHECK_FALSE(flags.loop.pretrained_epoch);
  CHECK(parsed({}).job.network.layer_before_fullc.empty());
  CHECK(parsed({"--layer-before-fullc", "flatten0"}).job.network.layer_before_fullc.empty());
  CHECK_THAT(refused({"--layer-before-fullc", "flatten1"}), Catch::Contains("--pretrained-model"));
  flags = parsed({"--lr-mult", "conv*=0,fc=10"});
  CHECK(flags.job.network.lr_mult == std::vector<std::string>{"conv*=0", "fc=10"});
}

}  // namespace dtrain::job
