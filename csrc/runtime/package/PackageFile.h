// A package on disk, mapped: constants are used where they lie, and read when something first needs them.
#pragma once

#include "artifact/Artifact.h"
#include "artifact/Package.h"
#include "support/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace torch_tile::runtime {

class PackageFile {
public:
  /// The file must not be written while it is mapped; checkUnchanged finds out between calls. Nothing is written to it:
  /// what a program writes to a constant stays in this process.
  static Status open(const std::string &path, std::shared_ptr<const PackageFile> &file);

  ~PackageFile();
  PackageFile(const PackageFile &) = delete;
  PackageFile &operator=(const PackageFile &) = delete;

  const artifact::Package &package() const { return content; }
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t *>(memory), sizeBytes}; }
  /// The first element of a constant. The memory is this process's own and lives as long as the file object.
  void *constant(uint32_t number) const;

  /// Compares constants with their checksums, once for all who use this object: programs write constants later.
  Status checkConstants() const;

  /// To be called before each call that reads constants where they are mapped: asks for size and time of the file,
  /// every ten milliseconds. A file that another process has written is an error, unless its constants are what they
  /// were.
  Status checkUnchanged() const;

  /// The artifact of a variant, checked as any other; the constants that it takes fit what it was compiled for.
  Status readProgram(const artifact::Variant &variant, artifact::Artifact &program) const;

  /// Compares everything with its checksum, programs for other machines too. Nothing has been written yet.
  Status verify() const;

private:
  PackageFile() = default;
  Status checkPadding() const;
  Status look() const;
  Status compareAgain(int64_t time) const;
  void ownWrittenConstants() const;
  int descriptor = -1;
  std::string path;
  void *memory = nullptr;
  size_t sizeBytes = 0;
  artifact::Package content;
  mutable std::once_flag isChecked;
  mutable Status checked;
  mutable std::atomic<int64_t> unchangedAt;  // the time of the file in nanoseconds at which it was compared
  mutable std::atomic<int64_t> lookedAt = 0; // by the steady clock, in nanoseconds
  mutable std::mutex comparing;
};

/// Memory, views, kernels and checks; what else there is takes LibTorch.
bool runsWithoutTorch(const artifact::Step &step);

/// The best variant for this processor, or for a GPU of `capability` (90 for 9.0) where that is not 0. A status that
/// lists what the package has if none fits.
Status chooseVariant(const artifact::Package &package, int capability, uint32_t &variant);

} // namespace torch_tile::runtime
