// A package as a directory, which contains links to files of this host, and the files that exist only in the package.
// tar follows the links, so the archive is created without intermediate copies.
#pragma once

#include <string>
#include <utility>

#include "package/contents.h"

namespace dtrain::package {

class StagedPackage {
 public:
  // Creates a directory inside `temporary`; the destructor removes it. Code::kPreempted: a signal arrived.
  static Result<StagedPackage> create(const Contents& contents, const std::string& temporary,
                                      proc::SignalQueue& signals);
  StagedPackage(StagedPackage&& other) noexcept;
  StagedPackage& operator=(StagedPackage&&) = delete;
  ~StagedPackage();

  // The name that the directory has on hosts: the build id and 12 digits of the manifest's checksum. Packages with the
  // same id are identical.
  [[nodiscard]] const std::string& id() const { return id_; }
  // Writes the package as a .tar.gz file, under a temporary name until it is complete. Equal contents produce equal
  // bytes.
  Result<> write_archive(const std::string& path, proc::SignalQueue& signals) const;
  // A path in the directory, where the caller may create a file; the destructor removes it.
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  explicit StagedPackage(std::string directory) : directory_(std::move(directory)) {}
  Result<> add(const Contents& contents, proc::SignalQueue& signals);

  std::string directory_;
  std::string name_;  // name of the package, which is a directory inside directory_
  std::string id_;
};

}  // namespace dtrain::package
