// Finds a process of a job that runs on this host, so that a test can kill it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace dtrain::test {

// The process of this role and rank in the job with this --run-dir; 0: there is none.
inline pid_t process_of_job(const std::string& run_dir, const std::string& role, uint64_t rank) {
  std::string wanted;
  for (const std::string& word :
       {std::string("--role"), role, std::string("--rank"), std::to_string(rank), std::string("--run-dir"), run_dir}) {
    wanted += word + '\0';
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    if (words.find(wanted) != std::string::npos) return std::atoi(entry.path().filename().c_str());
  }
  return 0;
}

}  // namespace dtrain::test
