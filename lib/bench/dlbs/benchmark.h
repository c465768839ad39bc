// What a DLBS benchmark runs: the flags of dtrain that follow from its parameters.
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

// A network of DLBS that dtrain has.
struct DlbsModel {
  std::string title;           // as DLBS's reports name it
  std::string network;         // --network
  std::vector<int64_t> image;  // --image-shape
};
// Code::kUsage for other ids lists those that there are.
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
  int64_t worker_batch = 0;  // samples of one batch of a node
  int64_t warmup_batches = 0, batches = 0;
  bool infers = false;       // else it trains
  bool has_servers = false;  // the store needs them
  Rendezvous rendezvous;     // where the nodes meet
  // Whether the benchmark has several processes; else it trains in one.
  [[nodiscard]] bool distributed() const { return nodes > 1 || has_servers; }
};

// Code::kUsage if a parameter asks for something that dtrain does not have; the message names it, and what to do.
Result<DlbsBenchmark> dlbs_benchmark(const DlbsParameters& parameters);

// The flags of `dtrain train` for a benchmark that trains, without those of single processes.
std::vector<std::string> training_flags_of(const DlbsBenchmark& benchmark, const DlbsParameters& parameters);
// For a benchmark that infers.
BenchTrainOptions inference_of(const DlbsBenchmark& benchmark);

// Code::kUsage, naming both addresses, if this host, on which rank 0 runs the scheduler, does not have the address
// of the rendezvous.
Result<> check_owns_rendezvous(const Rendezvous& rendezvous);

// The command line with which docker runs this benchmark: exp.docker_launcher, exp.docker_args, exp.docker_image.
// `directory`: the current one, for paths. Code::kUsage if no image is named.
Result<std::vector<std::string>> docker_command(const DlbsParameters& parameters, const std::string& directory);

}  // namespace dtrain::bench
