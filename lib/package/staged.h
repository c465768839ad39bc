// A package as a directory: links to files of this host, and files that exist only in the package. tar follows the
// links, so it makes an archive without intermediate copies.
#pragma once

#include <string>
#include <utility>

#include "package/contents.h"

namespace dtrain::package {

class StagedPackage {
 public:
  // Creates a directory in `temporary`, which the destructor removes. Code::kPreempted: a signal arrived.
  static Result<StagedPackage> create(const Contents& contents, const std::string& temporary,
                                      proc::SignalQueue& signals);
  StagedPackage(StagedPackage&& other) noexcept;
  StagedPackage& operator=(StagedPackage&&) = delete;
  ~StagedPackage();

  // The directory's name on hosts: the build id and 12 digits of the manifest's checksum. Packages with the same id are
  // identical.
  [[nodiscard]] const std::string& id() const { return id_; }
  // Writes the package as a .tar.gz file, with a temporary name until it is complete. Equal contents give equal bytes.
  Result<> write_archive(const std::string& path, proc::SignalQueue& signals) const;
  // A path in the directory, for a file that the destructor removes.
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  explicit StagedPackage(std::string directory) : directory_(std::move(directory)) {}
  Result<> add(const Contents& contents, proc::SignalQueue& signals);

  std::string directory_;
  std::string name_;  // name of the package, a directory in directory_
  std::string id_;
};

}  // namespace dtrain::package
