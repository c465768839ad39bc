// A group of all devices of all processes, made of two: the devices of each process in shared memory, and a group of
// processes in which the first device of each takes part. So an array crosses the network once a process, not once a
// device. distributed.md 1.2.
//
// rank = process * devices + device. Every process has the same number of devices; who creates the groups compares
// them (they are in the JobSpec). Sums are the processes' sum, in their group's order, of each process's ordered sum
// over its devices: ((p0d0 + p0d1) + (p1d0 + p1d1)) with an ordered group of processes. The bits are the same whichever
// operation makes the sum, if they are so in the group of processes.
//
// Threads and errors are those of the parts. An error at one end breaks off the whole group in this process, the end of
// the group of processes too, so that the other processes hear of it.
//
// all_reduce and broadcast work in place; the first reduce, reduce_scatter and all_gather take one array's memory for
// each process, which longer arrays enlarge.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/collective.h"

namespace dtrain::comm {

struct HierarchyOptions {
  uint32_t devices = 1;  // of this process, and of every other
  // For a device of this process to come. More than the limit of `processes`: a device that is waited for may itself be
  // waiting for another process, and that is then the error to be heard.
  double wait_limit_s = 600;
};

// The ends of this process's devices, in order. `processes` is this process's end, and is theirs from now on.
std::vector<std::unique_ptr<Collective>> make_hierarchy(HierarchyOptions options,
                                                        std::unique_ptr<Collective> processes);

}  // namespace dtrain::comm
