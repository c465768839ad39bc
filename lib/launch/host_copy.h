// The commands with which --sync-dst-dir copies this program and the current directory to a host. The host needs only
// ssh, a shell, tar and gzip. The program is copied to DIR/.dtrain/ID, and the link DIR/.dtrain/current points to the
// latest copy, so a copy never changes files that a running job uses. ID identifies the package (package/staged.h).
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/host_file.h"

namespace dtrain::launch {

struct HostCopy {
  std::vector<std::string> ssh;      // "ssh ... HOST", to which a command for the host is appended
  std::vector<std::string> rsync;    // copies the current directory; see rsync_command()
  std::string directory;             // the DIR of --sync-dst-dir
  std::vector<std::string> exclude;  // patterns of files that are not copied
};

HostCopy host_copy(const job::SshAddress& address, const std::string& directory,
                   const std::vector<std::string>& exclude);

// The path of the program in a directory to which it was copied.
std::string copied_program(const std::string& directory);

// The state of a copy, as a host reports it. This host can be asked too.
struct CopyState {
  bool has_program = false;
  bool has_rsync = false;
  std::string architecture = {};  // architecture of the host's processor: "x86_64"
  std::string directory = {};     // identifies the directory; no other directory has the same text
};

// Prints the CopyState of the host. If the host has the program, makes it the current one.
std::vector<std::string> ask_command(const HostCopy& copy, const std::string& id);
// Reads what ask_command() has printed. Skips lines that something else has printed, such as a shell's banner.
CopyState parse_copy_state(const std::vector<std::string>& lines);
// CopyState::directory of this process's current directory; empty if it cannot be determined.
std::string this_directory();

// While they copy, these commands repeatedly print on stdout how many bytes they have copied, separated by carriage
// returns (copied_bytes() in copy_progress.h).

// Unpacks the archive on the host, starts the program once as a test, and makes it the current one. Keeps the three
// latest programs.
std::vector<std::string> program_command(const HostCopy& copy, const std::string& id, const std::string& archive);

// Copies those files of the current directory that differ from the host's. `prints_bytes` must be false for an rsync
// older than 3.1, which cannot print its progress.
std::vector<std::string> rsync_command(const HostCopy& copy, bool prints_bytes = true);
// Copies the whole current directory with tar. For hosts without rsync.
std::vector<std::string> tar_command(const HostCopy& copy);

// These commands copy nothing, but print how many bytes rsync_command() and tar_command() will copy (bytes_to_copy() in
// copy_progress.h).
std::vector<std::string> rsync_size_command(const HostCopy& copy);
std::vector<std::string> tar_size_command(const HostCopy& copy);

// What --dry-run prints about the copies to `host`.
std::string copy_text(const HostCopy& copy, const std::string& host);

}  // namespace dtrain::launch
