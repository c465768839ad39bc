#include "package/licenses.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "proc/run.h"

namespace dtrain::package {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kCommonLicenses = "/usr/share/common-licenses/";
// The Debian packages of header-only libraries, which are compiled into the program. They are installed only on hosts
// that build it.
constexpr std::array kHeaderPackages = {"libcli11-dev", "libexpected-dev", "libtomlplusplus-dev", "nlohmann-json3-dev"};

// The paths under which the database of packages may list the file: with links resolved, and with the old path, because
// /lib is now a link to /usr/lib.
std::vector<std::string> listed_paths(const std::string& path) {
  std::error_code error;
  const std::string real = fs::canonical(path, error).string();
  if (error) return {path};
  std::vector<std::string> paths = {real};
  if (real.starts_with("/usr/lib")) paths.push_back(real.substr(4));
  return paths;
}

// The Debian packages that own the files, indexed by path. `dpkg -S` prints lines of the form "PACKAGE:amd64: PATH".
Result<std::map<std::string, std::string>> packages_of(const std::vector<std::string>& paths,
                                                       proc::SignalQueue& signals) {
  std::vector<std::string> command = {"dpkg-query", "--search", "--"};
  command.insert(command.end(), paths.begin(), paths.end());
  std::map<std::string, std::string> packages;
  const Result<proc::Finished> answer =
      // The exit code is 1 if a path does not belong to a package; this is not an error here.
      proc::run({.arguments = command}, signals);
  if (!answer && answer.error().code == Code::kPreempted) return tl::unexpected(answer.error());
  if (!answer) return packages;
  for (const std::string& line : answer->output) {
    const size_t end = line.find(": ");
    if (end == std::string::npos || line.starts_with("diversion ")) continue;
    packages[line.substr(end + 2)] = line.substr(0, line.find_first_of(":,"));
  }
  return packages;
}

Result<std::map<std::string, std::string>> versions_of(const std::set<std::string>& packages,
                                                       proc::SignalQueue& signals) {
  std::map<std::string, std::string> versions;
  if (packages.empty()) return versions;
  std::vector<std::string> command = {"dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n", "--"};
  command.insert(command.end(), packages.begin(), packages.end());
  const Result<proc::Finished> answer = proc::run({.arguments = command}, signals);
  if (!answer && answer.error().code == Code::kPreempted) return tl::unexpected(answer.error());
  if (!answer) return versions;
  for (const std::string& line : answer->output) {
    const size_t end = line.find(' ');
    if (end != std::string::npos) versions[line.substr(0, end)] = line.substr(end + 1);
  }
  return versions;
}

// Adds the copyright file of the package, and the common licenses to which it refers. Returns false if there is no such
// file.
bool add_texts(const std::string& package, std::vector<LicenseFile>& files, std::set<std::string>& common) {
  const std::string path = "/usr/share/doc/" + package + "/copyright";
  const Result<std::string> text = read_file(path);
  if (!text) return false;
  files.push_back({package + "/copyright", path});
  for (const std::string& name : common_licenses_in(*text)) {
    if (fs::exists(std::string(kCommonLicenses) + name)) common.insert(name);
  }
  return true;
}

}  // namespace

std::vector<std::string> common_licenses_in(const std::string& copyright) {
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_";
  std::set<std::string> names;
  for (size_t at = 0; (at = copyright.find(kCommonLicenses, at)) != std::string::npos;) {
    at += kCommonLicenses.size();
    const size_t end = std::min(copyright.find_first_not_of(kNameCharacters, at), copyright.size());
    std::string name = copyright.substr(at, end - at);
    while (!name.empty() && (name.back() == '.' || name.back() == '-'))
      name.pop_back();  // removes punctuation, if the name is at the end of a sentence
    if (!name.empty() && name.front() != '.') names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

Result<Licenses> find_licenses(const std::vector<Library>& libraries, proc::SignalQueue& signals) {
  std::vector<std::string> paths;
  for (const Library& library : libraries) {
    for (std::string& path : listed_paths(library.path)) paths.push_back(std::move(path));
  }
  DT_TRY(const auto package_of, packages_of(paths, signals));
  std::map<std::string, std::string> owners;  // Debian packages, indexed by the library's name
  std::set<std::string> packages, common, with_texts;
  for (const Library& library : libraries) {
    for (const std::string& path : listed_paths(library.path)) {
      const auto owner = package_of.find(path);
      if (owner == package_of.end()) continue;
      owners[library.name] = owner->second;
      packages.insert(owner->second);
    }
  }
  DT_TRY(const auto versions, versions_of(packages, signals));
  Licenses licenses;
  for (const std::string& package : packages) {
    if (add_texts(package, licenses.files, common)) with_texts.insert(package);
  }
  for (const char* package : kHeaderPackages) add_texts(package, licenses.files, common);
  for (const std::string& name : common) {
    licenses.files.push_back({"common-licenses/" + name, std::string(kCommonLicenses) + name});
  }
  for (const Library& library : libraries) {
    const auto owner = owners.find(library.name);
    const std::string package = owner == owners.end() ? "" : owner->second;
    if (!with_texts.contains(package)) licenses.missing.push_back(library.name);
    const auto version = versions.find(package);
    licenses.table += fmt::format("{} {} {}\n", library.name, package.empty() ? "unknown" : package,
                                  version == versions.end() ? "unknown" : version->second);
  }
  return licenses;
}

}  // namespace dtrain::package
