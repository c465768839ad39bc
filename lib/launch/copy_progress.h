// Parses the progress that the commands of host_copy.h print.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proc/run.h"

namespace dtrain::launch {

// The number of bytes copied so far, from a line of rsync's or dd's stdout: "  4096  12%  1.00MB/s  0:00:03" or "4096
// bytes (4.1 kB, 4.0 KiB) copied, 1 s, 4.1 kB/s". Nullopt for other lines.
std::optional<int64_t> copied_bytes(const std::string& line);

// The number of bytes that rsync_command() or tar_command() will copy, from the output of rsync_size_command() or
// tar_size_command(). Nullopt if the output does not contain it.
std::optional<int64_t> bytes_to_copy(const proc::Finished& answer);

}  // namespace dtrain::launch
