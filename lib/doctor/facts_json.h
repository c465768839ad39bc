// Converts the doctor's facts to and from JSON. The facts may come from another build of dtrain: members that it did
// not send keep their default values.
#pragma once

#include "base/json.h"
#include "doctor/facts.h"

namespace dtrain::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ResolvedName, name, addresses, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DataFile, path, bytes, checksum, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Processor, name, cores, isa)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RunDirectory, path, existing, writable, error, free_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Gpus, asked, error, found, count, driver, cuda, nccl)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MemoryNeeds, worker, server, checkpoint, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Speeds, disk_write, disk_read, decode, disk_error, decode_error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Facts, build_id, host_name, processor, open_files, shm_bytes,
                                                shm_free_bytes, memory_bytes, memory_free_bytes, names, address,
                                                address_error, port, listen_error, run_directory, flags_error, gpus,
                                                needs, files, data_error, speeds, wall_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Contact, host, error, round_trip_s, clock_ahead_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PathSpeed, error, out, back)

}  // namespace dtrain::doctor
