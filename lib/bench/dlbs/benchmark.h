// Translates the parameters of a DLBS benchmark into flags of dtrain.
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

// A network of DLBS that dtrain supports.
struct DlbsModel {
  std::string title;           // name in DLBS's reports
  std::string network;         // --network
  std::vector<int64_t> image;  // --image-shape
};
// Code::kUsage for unknown ids; the message lists the known ones.
Result<DlbsModel> dlbs_model(const std::string& id);

// "HOST:PORT" or "INTERFACE:HOST:PORT"; an IPv6 address is in brackets.
struct Rendezvous {
  std::string interface;  // empty: none
  net::Endpoint scheduler;
};
Result<Rendezvous> parse_rendezvous(const std::string& text);

struct DlbsBenchmark {
  DlbsModel model;
  int64_t rank = 0, nodes = 1;
  int64_t worker_batch = 0;  // samples in one batch of a node
  int64_t warmup_batches = 0, batches = 0;
  bool infers = false;     // otherwise it trains
  std::optional<int> gpu;  // the GPU that infers; nullopt: the CPU
  Type dtype = Type::kFloat32;
  bool has_servers = false;  // the store has servers
  Rendezvous rendezvous;     // address at which the nodes meet
  // True if the benchmark has several processes; otherwise it trains in one.
  [[nodiscard]] bool distributed() const { return nodes > 1 || has_servers; }
};

// Code::kUsage if a parameter requests something that dtrain does not support; the message names it, and a remedy.
Result<DlbsBenchmark> dlbs_benchmark(const DlbsParameters& parameters);

// The flags of `dtrain train` for a training benchmark, without those of single processes.
std::vector<std::string> training_flags_of(const DlbsBenchmark& benchmark, const DlbsParameters& parameters);
// The options for an inference benchmark.
BenchTrainOptions inference_of(const DlbsBenchmark& benchmark);

// Code::kUsage, naming both addresses, if this host runs the scheduler (rank 0) but does not have the rendezvous
// address.
Result<> check_owns_rendezvous(const Rendezvous& rendezvous);

// The command line that runs this benchmark in docker: exp.docker_launcher, exp.docker_args, exp.docker_image.
// `directory`: the current one, for paths. Code::kUsage if no image is named.
Result<std::vector<std::string>> docker_command(const DlbsParameters& parameters, const std::string& directory);

}  // namespace dtrain::bench
