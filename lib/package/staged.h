// A package as a folder: links to files of this machine, and those files that exist only in the package. tar, told to
// follow links, makes an archive of it without copies in between.
#pragma once

#include <string>
#include <utility>

#include "package/contents.h"

namespace dtrain::package {

class StagedPackage {
 public:
  // Makes a folder in `temporary`, which the destructor removes. Code::kPreempted: a signal arrived.
  static Result<StagedPackage> create(const Contents& contents, const std::string& temporary,
                                      proc::SignalQueue& signals);
  StagedPackage(StagedPackage&& other) noexcept;
  StagedPackage& operator=(StagedPackage&&) = delete;
  ~StagedPackage();

  // The folder's name on hosts: the build id and 12 digits of the manifest's checksum. Packages with the same id are
  // the same.
  [[nodiscard]] const std::string& id() const { return id_; }
  // Writes the package as a .tar.gz file, under a temporary name until it is complete. The same contents give the same
  // bytes.
  Result<> write_archive(const std::string& path, proc::SignalQueue& signals) const;
  // A path in the folder, for a file that the destructor removes.
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  explicit StagedPackage(std::string folder) : folder_(std::move(folder)) {}
  Result<> add(const Contents& contents, proc::SignalQueue& signals);

  std::string folder_;
  std::string name_;  // of the package, a folder in folder_
  std::string id_;
};

}  // namespace dtrain::package
