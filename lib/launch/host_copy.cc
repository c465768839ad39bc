#include "launch/host_copy.h"

#include <sys/stat.h>

#include <sstream>

#include "launch/command.h"
#include "launch/ssh.h"

namespace dtrain::launch {
namespace {

constexpr const char* kPrograms = ".dtrain";
constexpr const char* kStateWord = "dtrain-copy";  // begins each line with which a host answers
constexpr int kProgramsKept = 3;

std::string programs_in(const std::string& directory) {
  return directory + "/" + kPrograms;
}

// The command that runs `script`, a single line, on the host. The user's shell there may be of any kind, so it only
// starts sh.
std::vector<std::string> on_host(const HostCopy& copy, const std::string& script) {
  std::vector<std::string> words = copy.ssh;
  words.push_back("exec sh -c " + proc::shell_line({script}));
  return words;
}

// Makes this program the current one. The link is replaced atomically: a process that starts at this moment finds
// either the old program or the new one.
std::string make_current(const std::string& id) {
  return fmt::format("touch {0} && ln -s {0} .current-$$ && mv -fT .current-$$ current", proc::shell_line({id}));
}

// Translates rsync's patterns for tar: a pattern that begins with '/' matches names in the top directory, any other one
// names in every directory; * does not match '/', but ** does.
void add_exclude(const std::string& pattern, std::vector<std::string>& words) {
  const bool anchored = pattern.starts_with('/');
  std::string name = anchored ? "." + pattern : pattern;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  words.emplace_back(anchored ? "--anchored" : "--no-anchored");
  words.emplace_back(name.find("**") == std::string::npos ? "--no-wildcards-match-slash" : "--wildcards-match-slash");
  words.push_back("--exclude=" + name);
}

std::vector<std::string> tar_words(const HostCopy& copy, const std::vector<std::string>& options) {
  std::vector<std::string> words = {"tar", "--create"};
  words.insert(words.end(), options.begin(), options.end());
  add_exclude(std::string("/") + kPrograms, words);
  for (const std::string& pattern : copy.exclude) add_exclude(pattern, words);
  words.emplace_back(".");
  return words;
}

// Pipes the output of `from` to `script` on the host. On stdout, dd prints how many bytes have passed, and ssh prints
// the output of the host.
std::vector<std::string> pipe_to_host(const HostCopy& copy, const std::string& from, const std::string& script) {
  return {"bash", "-o", "pipefail", "-c",
          fmt::format("exec 3>&1; {} LC_ALL=C dd bs=64K status=progress 2>&3 3>&- | {} 3>&-", from,
                      proc::shell_line(on_host(copy, script)))};
}

}  // namespace

HostCopy host_copy(const job::SshAddress& address, const std::string& directory,
                   const std::vector<std::string>& exclude) {
  HostCopy copy{.ssh = ssh_command(address, ""),
                .rsync = {"rsync", "-az", "--timeout=60"},
                .directory = directory,
                .exclude = exclude};
  copy.ssh.pop_back();
  copy.rsync.push_back(std::string("--exclude=/") + kPrograms);
  for (const std::string& pattern : exclude) copy.rsync.insert(copy.rsync.end(), {"--exclude", pattern});
  const bool v6 = address.host.find(':') != std::string::npos;
  copy.rsync.insert(copy.rsync.end(), {"-e", proc::shell_line(ssh_with_options(address)), "./",
                                       fmt::format(fmt::runtime(v6 ? "[{}]:{}/" : "{}:{}/"), address.host, directory)});
  return copy;
}

std::string copied_program(const std::string& directory) {
  return programs_in(directory) + "/current/bin/dtrain";
}

std::vector<std::string> ask_command(const HostCopy& copy, const std::string& id) {
  const std::string word = fmt::format("echo {} ", kStateWord);
  std::string script =
      fmt::format("if cd {} 2>/dev/null && [ -x {}/bin/dtrain ]; then {} && {}program; fi; ",
                  proc::shell_line({programs_in(copy.directory)}), proc::shell_line({id}), make_current(id), word);
  script += fmt::format("if command -v rsync >/dev/null; then {}rsync; fi; {}architecture $(uname -m); ", word, word);
  // `ls` makes a network file system's client request the current state of the directory.
  script += fmt::format("if cd {} 2>/dev/null && ls >/dev/null; then {}directory $(stat -c '%i %.9Z' .); fi",
                        proc::shell_line({copy.directory}), word);
  return on_host(copy, script);
}

CopyState parse_copy_state(const std::vector<std::string>& lines) {
  CopyState state;
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string first, what, rest;
    if (!(words >> first >> what) || first != kStateWord) continue;
    std::getline(words >> std::ws, rest);
    if (what == "program") state.has_program = true;
    if (what == "rsync") state.has_rsync = true;
    if (what == "architecture") state.architecture = rest;
    if (what == "directory") state.directory = rest;
  }
  return state;
}

// Identifies the directory by its inode and change time. A copy can have the same modification time, but no program can
// set the change time.
std::string this_directory() {
  struct stat status {};
  if (::stat(".", &status) != 0) return "";
  return fmt::format("{} {}.{:09}", status.st_ino, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

std::vector<std::string> program_command(const HostCopy& copy, const std::string& id, const std::string& archive) {
  const std::string programs = proc::shell_line({programs_in(copy.directory)}), name = proc::shell_line({id});
  std::string script = fmt::format("mkdir -p {0} && cd {0} || exit 1; new=.new-$(uname -n)-$$; ", programs);
  script += "trap 'rm -rf \"$new\"' EXIT; mkdir \"$new\" || exit 1; ";
  script += "tar -xzf - --no-same-owner --strip-components=1 -C \"$new\" || exit 1; ";
  script += "\"$new\"/bin/dtrain --version >/dev/null || exit 1; ";
  // The program may be there already, because another host with the same file system was faster.
  script += fmt::format("mv -T \"$new\" {0} 2>/dev/null || [ -x {0}/bin/dtrain ] || exit 1; {1} || exit 1; ", name,
                        make_current(id));
  script +=
      fmt::format("ls -1td [0-9]* | tail -n +{} | while read -r old; do rm -rf \"$old\"; done", kProgramsKept + 1);
  return pipe_to_host(copy, fmt::format("<{}", proc::shell_line({archive})), script);
}

std::vector<std::string> rsync_command(const HostCopy& copy, bool prints_bytes) {
  std::vector<std::string> words = copy.rsync;
  if (prints_bytes) words.insert(words.end(), {"--info=progress2", "--no-human-readable"});
  return words;
}

std::vector<std::string> rsync_size_command(const HostCopy& copy) {
  std::vector<std::string> words = copy.rsync;
  words.insert(words.end(), {"--dry-run", "--stats", "--no-human-readable"});
  return words;
}

std::vector<std::string> tar_command(const HostCopy& copy) {
  const std::string script = fmt::format("cd {} && exec tar -xf -", proc::shell_line({copy.directory}));
  // Accepts exit code 1 of tar: a file, such as a log, has changed while it was read.
  return pipe_to_host(copy, fmt::format("{{ {} || [ $? -eq 1 ]; }} |", proc::shell_line(tar_words(copy, {}))), script);
}

// tar skips reading the files if it writes to /dev/null.
std::vector<std::string> tar_size_command(const HostCopy& copy) {
  std::vector<std::string> words = {"env", "LC_ALL=C"};
  for (const std::string& word : tar_words(copy, {"--file=/dev/null", "--totals"})) words.push_back(word);
  return words;
}

// Describes the commands instead of printing them, because they have three levels of quotes.
std::string copy_text(const HostCopy& copy, const std::string& host) {
  return fmt::format(
      "(copies this program with its libraries over ssh to {}, to {}/, unless they are already there)\n"
      "{}\n"
      "(if {} has no rsync, uses tar over ssh instead)\n",
      host, proc::shell_line({programs_in(copy.directory)}), proc::shell_line(rsync_command(copy)), host);
}

}  // namespace dtrain::launch
