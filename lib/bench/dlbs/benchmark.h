// Translates the parameters of a DLBS benchmark to flags of dtrain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/dlbs/parameters.h"
#include "bench/train.h"
#include "net/endpoint.h"

namespace dtrain::bench {

// A model of DLBS, as far as dtrain supports it.
struct DlbsModel {
  std::string title;           // name of the model in DLBS's reports
  std::string network;         // the value of --network
  std::vector<int64_t> image;  // the value of --image-shape
};
// Code::kUsage if the id is unknown; the message lists the known ids.
Result<DlbsModel> dlbs_model(const std::string& id);

// Where the nodes of a benchmark meet, from "HOST:PORT" or "INTERFACE:HOST:PORT"; an IPv6 address is in brackets.
struct Rendezvous {
  std::string interface;  // the network interface to use; empty: none was named
  net::Endpoint scheduler;
};
Result<Rendezvous> parse_rendezvous(const std::string& text);

struct DlbsBenchmark {
  DlbsModel model;
  int64_t rank = 0, nodes = 1;
  int64_t worker_batch = 0;  // number of samples in a batch of one node
  int64_t warmup_batches = 0, batches = 0;
  bool infers = false;     // whether the benchmark measures inference; otherwise it trains
  std::optional<int> gpu;  // the GPU that infers; nullopt: the CPU
  Type dtype = Type::kFloat32;
  bool has_servers = false;  // whether the store has servers
  Rendezvous rendezvous;     // the address at which the nodes meet
  // True if the job has several processes; otherwise it trains in a single process.
  [[nodiscard]] bool distributed() const { return nodes > 1 || has_servers; }
};

// Code::kUsage if a parameter requests something that dtrain does not support; the message names the parameter and a
// remedy.
Result<DlbsBenchmark> dlbs_benchmark(const DlbsParameters& parameters);

// The flags of `dtrain train` for a training benchmark, without the flags that differ between the processes.
std::vector<std::string> training_flags_of(const DlbsBenchmark& benchmark, const DlbsParameters& parameters);
// The options for an inference benchmark.
BenchTrainOptions inference_of(const DlbsBenchmark& benchmark);

// Code::kUsage if this host should run the scheduler (rank 0) but does not have the rendezvous address; the message
// names both addresses.
Result<> check_owns_rendezvous(const Rendezvous& rendezvous);

// The command line that runs this benchmark in docker, from exp.docker_launcher, exp.docker_args and exp.docker_image.
// `directory`: the current directory, to which paths are relative. Code::kUsage if no image is given.
Result<std::vector<std::string>> docker_command(const DlbsParameters& parameters, const std::string& directory);

}  // namespace dtrain::bench
