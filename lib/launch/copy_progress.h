// What the commands of host_copy.h print about how far they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proc/run.h"

namespace dtrain::launch {

// How many bytes a copy has copied, of a line of rsync's or dd's stdout: "  4096  12%  1.00MB/s  0:00:03" or
// "4096 bytes (4.1 kB, 4.0 KiB) copied, 1 s, 4.1 kB/s". Nothing for other lines.
std::optional<int64_t> copied_bytes(const std::string& line);

// How many bytes rsync_command() or tar_command() will copy, from what rsync_size_command() or tar_size_command()
// printed. Nothing if it does not say so.
std::optional<int64_t> bytes_to_copy(const proc::Finished& answer);

}  // namespace dtrain::launch
