// The network of a job, its initial values, and how its parameters are divided for the stores.
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
// The number of classes of a network that comes from a symbol file, for images of the shape that the flags give.
Result<int64_t> classes_of_file(const job::NetworkFlags& flags);

// The image shape [c, h, w] that the network's symbol file states; empty if it states none.
Result<std::vector<int64_t>> stated_image(const job::NetworkFlags& flags);

// Sets the flags that depend on the network's file and the data set, unless they are given: the shape of the images,
// the number of classes, the type of the data and their mean. For a process that has the data files.
Result<> complete_flags(job::Flags& flags);

// Parses --initializer. Also works before the flag is resolved.
Result<InitializerSpec> initializer_spec(const job::JobFlags& flags);

// Fills weights and statistics with initial values. Every process of the job draws the same values from the job's seed.
Result<> initialize(const job::JobFlags& flags, const ParameterView& view);

// The number of elements of each key of the stores: parameters, then statistics.
std::vector<uint64_t> key_sizes(const graph::Shapes& shapes);

// Divides the parameters into buckets that are sent together (exec's bucket_begin); a single bucket if gradients are
// not sent.
std::vector<size_t> plan_buckets(const job::Flags& flags, const Network& network);

}  // namespace dtrain::role
