// A group of all devices of all processes, composed of two groups: the devices of each process in shared memory, and a
// group of processes in which the first device of each process takes part. So an array crosses the network once per
// process, not once per device.
//
// rank = process * devices + device. Every process must have the same number of devices; the creator of the groups
// checks that. Each process first sums over its devices in order. The results are then summed over the processes, in
// the order of their group: ((p0d0 + p0d1) + (p1d0 + p1d1)) with an ordered group of processes. In that case the result
// is the same for all operations, bit for bit.
//
// Threads and errors are as in the two groups. An error at one end cancels the whole group in this process, including
// its end of the group of processes, so that the other processes learn of it.
//
// all_reduce and broadcast work in place. The first reduce, reduce_scatter or all_gather allocates memory for one array
// per process, which grows for longer arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/collective.h"

namespace dtrain::comm {

struct HierarchyOptions {
  uint32_t devices = 1;  // number of devices of this process; the same in every process
  // Time limit for a device of this process to arrive. It must be larger than the limit of `processes`: a device that
  // others wait for may itself be waiting for another process, and then the error about that process must be reported.
  double wait_limit_s = 600;
};

// Returns one end for each device of this process, in order. They own `processes`, this process's end of the group of
// processes.
std::vector<std::unique_ptr<Collective>> make_hierarchy(HierarchyOptions options,
                                                        std::unique_ptr<Collective> processes);

}  // namespace dtrain::comm
