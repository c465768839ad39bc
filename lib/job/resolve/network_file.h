// --network may name an MXNet symbol file. In the job the network then gets a name of its own, "LABEL:HASH", which is
// the same for equal files at any path: hosts may have the file at different paths, and a job must not mix two
// networks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::job {

struct Flags;
struct NetworkFlags;

// Larger files are refused. The largest network of MXNet's examples has 2.2 MB.
inline constexpr uint64_t kNetworkFileMax = uint64_t{16} << 20;

// True for "dir/mobilenet-symbol.json": it is a path, because of the slash or the ending.
bool is_network_file(std::string_view network);
// "mobilenet:51f3d0c98e6b2a74" for a file of this path and content.
std::string network_of_file(std::string_view path, std::string_view content);
// Whether this name of a network was made from a symbol file by network_of_file().
bool is_name_of_file(std::string_view network);
// The name without the hash, for file names: "mobilenet". Names of dtrain's own networks stay as they are.
std::string network_label(std::string_view network);

// Reads the file that --network names, and replaces the flag's value by the name of the network. Code::kNotFound if
// there is no such file; kUsage for flags that the file already determines.
Result<> resolve_network_file(Flags& flags);

// The content of the network's file, which must be the one that gave the network its name. Code::kUsage if it is not,
// or if this process was not given the file.
Result<std::string> read_network_file(const NetworkFlags& flags);

}  // namespace dtrain::job
