// The network of a job, its initial values, and how it is cut for the stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "optim/initializer.h"
#include "tensor/parameters.h"

namespace dtrain::job {
struct Flags;
struct JobFlags;
struct NetworkFlags;
}  // namespace dtrain::job

namespace dtrain::role {

// The network that the flags name, with the shapes of its tensors.
struct Network {
  graph::Graph graph;
  graph::Shapes shapes;
};
Result<Network> build_network(const job::JobFlags& flags);
// The classes of a network that is a symbol file, with the image shape of the flags.
Result<int64_t> classes_of_file(const job::NetworkFlags& flags);

// The image that the network's symbol file says it takes, [c, h, w]; empty if it does not say.
Result<std::vector<int64_t>> stated_image(const job::NetworkFlags& flags);

// Sets the flags that the network's file and the data set decide, where they are not given: the shape of the images,
// the number of classes, the type of the data and their mean. For a process that has the data files.
Result<> complete_flags(job::Flags& flags);

// --initializer, also before it is resolved.
Result<InitializerSpec> initializer_spec(const job::JobFlags& flags);

// Fills weights and statistics with initial values. Every process of the job draws the same ones from the job's seed.
Result<> initialize(const job::JobFlags& flags, const ParameterView& view);

// The number of elements of each key of the stores: parameters, then statistics.
std::vector<uint64_t> key_sizes(const graph::Shapes& shapes);

// Which parameters are sent together (exec's bucket_begin); one bucket if none are sent.
std::vector<size_t> plan_buckets(const job::Flags& flags, const Network& network);

}  // namespace dtrain::role
