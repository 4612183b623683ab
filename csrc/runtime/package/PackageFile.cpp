#include "runtime/package/PackageFile.h"

#include "artifact/Serialize.h"
#include "runtime/package/CpuFeatures.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace torch_tile::runtime {

using namespace artifact;

static Status bad(std::string text) { return Status::invalidInput("load", std::move(text)); }

static int64_t writtenAt(const struct stat &facts) {
#if defined(__APPLE__)
  const struct timespec &time = facts.st_mtimespec;
#else
  const struct timespec &time = facts.st_mtim;
#endif
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

PackageFile::~PackageFile() {
  if (memory)
    munmap(memory, sizeBytes);
  if (descriptor >= 0)
    close(descriptor);
}

Status PackageFile::open(const std::string &path, std::shared_ptr<const PackageFile> &file) {
  // A pipe is refused below, not waited for.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return bad("cannot open package '" + path + "': " + std::strerror(errno));
  struct stat facts;
  bool isFile = fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  auto size = isFile ? static_cast<size_t>(facts.st_size) : 0;
  void *memory =
      size > 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    close(descriptor);
    return bad("cannot read package '" + path +
               "': " + (isFile ? "it is empty or cannot be mapped" : "no regular file"));
  }
  std::shared_ptr<PackageFile> opened(new PackageFile);
  opened->descriptor = descriptor;
  opened->path = path;
  opened->unchangedAt = writtenAt(facts);
  opened->memory = memory;
  opened->sizeBytes = size;
  Status status = readPackage(opened->bytes(), opened->content);
  if (!status.isOk()) {
    status.text = "'" + path + "': " + status.text;
    return status;
  }
  file = std::move(opened);
  return Status::ok();
}

void *PackageFile::constant(uint32_t number) const {
  return static_cast<uint8_t *>(memory) + content.blobs[content.constants[number].blob].offset;
}

/// Maps the pages of a blob all at once, where the system can: a fault for each costs more than its checksum.
static void map(std::span<const uint8_t> file, const Blob &blob) {
#if defined(MADV_POPULATE_READ)
  constexpr uint64_t page = 4096;
  uint64_t begin = blob.offset / page * page;
  if (blob.sizeBytes >= 16 * page)
    madvise(const_cast<uint8_t *>(file.data()) + begin, blob.offset + blob.sizeBytes - begin, MADV_POPULATE_READ);
#endif
}

/// Compares blobs with their checksums, on several threads where there are many bytes. Gives the first of `wanted` that
/// differs, or the number of blobs.
static size_t findDamaged(std::span<const uint8_t> file, std::span<const Blob> blobs,
                          std::span<const uint32_t> wanted) {
  constexpr uint64_t bytesPerThread = 16 << 20;
  constexpr uint64_t maxThreads = 8;
  uint64_t sizeBytes = 0;
  for (uint32_t number : wanted)
    sizeBytes += blobs[number].sizeBytes;
  std::atomic<size_t> next = 0;
  std::atomic<size_t> first = wanted.size();
  auto work = [&]() noexcept {
    std::span<const uint8_t> bytes;
    for (size_t i = next++; i < wanted.size(); i = next++) {
      map(file, blobs[wanted[i]]);
      if (readBlob(file, blobs[wanted[i]], bytes).isOk())
        continue;
      for (size_t known = first; i < known && !first.compare_exchange_weak(known, i);) {
      }
    }
  };
  std::vector<std::thread> helpers;
  uint64_t processors = std::max(1u, std::thread::hardware_concurrency());
  for (uint64_t k = 1; k < std::min({maxThreads, processors, sizeBytes / bytesPerThread}); ++k) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error &) {
      break; // fewer threads do the same
    }
  }
  work();
  for (std::thread &helper : helpers)
    helper.join();
  return first < wanted.size() ? wanted[first] : blobs.size();
}

Status PackageFile::checkConstants() const {
  std::call_once(isChecked, [&] {
    std::vector<uint32_t> wanted;
    for (const PackageConstant &constant : content.constants)
      wanted.push_back(constant.blob);
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    // Large ones first, so that no thread is left with one.
    std::sort(wanted.begin(), wanted.end(), [&](uint32_t a, uint32_t b) {
      uint64_t sizeA = content.blobs[a].sizeBytes, sizeB = content.blobs[b].sizeBytes;
      return sizeA != sizeB ? sizeA > sizeB : a < b;
    });
    size_t damaged = findDamaged(bytes(), content.blobs, wanted);
    auto constant = std::find_if(content.constants.begin(), content.constants.end(),
                                 [&](const PackageConstant &each) { return each.blob == damaged; });
    if (constant != content.constants.end())
      checked = bad("the package is damaged: constant '" + constant->name +
                    "' does not have the checksum that the index names");
    else
      ownWrittenConstants();
  });
  return checked;
}

/// A page that is written is this process's own: what happens to the file reaches it no more.
void PackageFile::ownWrittenConstants() const {
  constexpr uint64_t page = 4096;
  auto *begin = static_cast<volatile uint8_t *>(memory);
  for (const PackageConstant &constant : content.constants) {
    const Blob &blob = content.blobs[constant.blob];
    if (!constant.isWritten || blob.sizeBytes == 0)
      continue;
    uint64_t last = blob.offset + blob.sizeBytes - 1;
    for (uint64_t at = blob.offset; at < last; at += page)
      begin[at] = begin[at];
    begin[last] = begin[last];
  }
}

Status PackageFile::checkUnchanged() const {
  // A system call costs as much as a small program, the clock does not.
  constexpr int64_t betweenLooks = 10'000'000;
  int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  if (now - lookedAt.load(std::memory_order_relaxed) < betweenLooks)
    return Status::ok();
  Status status = look();
  if (status.isOk())
    lookedAt.store(now, std::memory_order_relaxed);
  return status;
}

Status PackageFile::look() const {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0)
    return Status::ok(); // a network file system that is gone for now; what is mapped may still be there
  if (static_cast<uint64_t>(facts.st_size) < sizeBytes)
    return bad("package '" + path + "' was cut short after it was loaded: replace packages by renaming");
  return writtenAt(facts) == unchangedAt ? Status::ok() : compareAgain(writtenAt(facts));
}

Status PackageFile::compareAgain(int64_t time) const {
  std::lock_guard lock(comparing);
  std::vector<uint32_t> wanted;
  for (const PackageConstant &constant : content.constants)
    if (!constant.isWritten) // what a program writes is no longer the file's
      wanted.push_back(constant.blob);
  if (unchangedAt != time && findDamaged(bytes(), content.blobs, wanted) != content.blobs.size())
    return bad("package '" + path +
               "' was written after it was loaded: load it again, and replace packages by renaming");
  unchangedAt = time;
  return Status::ok();
}

/// A program reads as many elements as it was compiled for, whatever the index says of a constant.
static Status checkConstant(const Artifact &program, const Input &input, const PackageConstant &constant) {
  auto isSame = [&](const std::vector<ExprId> &ids, const std::vector<int64_t> &dims) {
    if (ids.size() != dims.size())
      return false;
    for (size_t i = 0; i < ids.size(); ++i) {
      const Expr &expr = program.exprs[ids[i]];
      if (expr.size() != 1 || expr[0].op != ExprOp::Constant || expr[0].value != dims[i])
        return false;
    }
    return true;
  };
  bool fits = input.kind == Input::Kind::Tensor && input.type == constant.type && isSame(input.sizes, constant.sizes) &&
              isSame(input.strides, constant.strides);
  return fits ? Status::ok() : bad("the package is damaged: constant '" + constant.name + "' does not fit its program");
}

Status PackageFile::readProgram(const Variant &variant, Artifact &program) const {
  std::span<const uint8_t> code;
  if (Status status = readBlob(bytes(), content.blobs[variant.program], code); !status.isOk())
    return status;
  if (Status status = deserialize(code, program); !status.isOk()) {
    status.text = "the program for " + variant.target + ": " + status.text;
    return status;
  }
  if (program.inputs.size() != variant.inputs.size())
    return bad("the package is damaged: a program has " + std::to_string(program.inputs.size()) + " inputs, not " +
               std::to_string(variant.inputs.size()));
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    InputSource source = variant.inputs[i];
    bool isTensor = program.inputs[i].kind == Input::Kind::Tensor;
    if (source.kind == InputSource::Kind::Constant) {
      if (Status status = checkConstant(program, program.inputs[i], content.constants[source.index]); !status.isOk())
        return status;
    } else if (isTensor != (content.inputs[source.index].kind == PackageInput::Kind::Tensor)) {
      return bad("the package is damaged: argument '" + content.inputs[source.index].name + "' is of another kind");
    }
  }
  bool callsPython = false;
  program.forEachBody([&](const Body &body) {
    for (const Step &step : body.steps)
      callsPython |= std::holds_alternative<PyCall>(step.action);
  });
  return callsPython ? bad("the package is damaged: a program calls Python") : Status::ok();
}

/// Bytes that nothing describes are zero.
Status PackageFile::checkPadding() const {
  constexpr uint64_t headerEnd = 44;
  std::vector<const Blob *> blobs;
  for (const Blob &blob : content.blobs)
    blobs.push_back(&blob);
  std::sort(blobs.begin(), blobs.end(), [](const Blob *a, const Blob *b) { return a->offset < b->offset; });
  uint64_t at = headerEnd;
  for (const Blob *blob : blobs) {
    for (; at < blob->offset; ++at)
      if (bytes()[at] != 0)
        return bad("the package is damaged: byte " + std::to_string(at) + " between its parts is not zero");
    at = std::max(at, blob->offset + blob->sizeBytes);
  }
  return Status::ok();
}

Status PackageFile::verify() const {
  if (Status status = checkPadding(); !status.isOk())
    return status;
  for (const Blob &blob : content.blobs) {
    std::span<const uint8_t> data;
    if (Status status = readBlob(bytes(), blob, data); !status.isOk())
      return status;
  }
  for (const Variant &variant : content.variants) {
    Artifact program;
    if (Status status = readProgram(variant, program); !status.isOk())
      return status;
  }
  return Status::ok();
}

bool runsWithoutTorch(const Step &step) {
  return std::holds_alternative<Alloc>(step.action) || std::holds_alternative<Free>(step.action) ||
         std::holds_alternative<Alias>(step.action) || std::holds_alternative<Launch>(step.action) ||
         std::holds_alternative<Check>(step.action);
}

/// "sm_90a" -> 90; 0 if it is no GPU. An "a" says that no later one runs it.
static int capabilityOf(const std::string &target, bool &isExact) {
  if (target.rfind("sm_", 0) != 0)
    return 0;
  isExact = target.back() == 'a';
  return std::atoi(target.c_str() + 3);
}

Status chooseVariant(const Package &package, int capability, uint32_t &variant) {
  const std::vector<std::string> features = processorFeatures();
  auto has = [&](const std::string &feature) {
    return std::find(features.begin(), features.end(), feature) != features.end();
  };
  std::string known;
  size_t best = 0;
  bool isFound = false;
  for (uint32_t i = 0; i < package.variants.size(); ++i) {
    const Variant &candidate = package.variants[i];
    known += (i ? ", " : "") + candidate.target;
    size_t rank = 0;
    if (capability > 0) {
      bool isExact = false;
      int own = capabilityOf(candidate.target, isExact);
      if (own == 0 || own > capability || own / 10 != capability / 10 || (isExact && own != capability))
        continue;
      rank = static_cast<size_t>(2 * own + isExact);
    } else {
      if (candidate.architecture != processorArchitecture() ||
          !std::all_of(candidate.features.begin(), candidate.features.end(), has))
        continue;
      rank = candidate.features.size();
    }
    if (!isFound || rank > best) {
      variant = i;
      best = rank;
      isFound = true;
    }
  }
  if (isFound)
    return Status::ok();
  std::string machine = capability > 0 ? "a GPU of compute capability " + std::to_string(capability / 10) + "." +
                                             std::to_string(capability % 10)
                                       : "this processor (" + std::string(processorArchitecture()) + ")";
  return Status::unsupported("load", "the package has no program for " + machine + "; it has " +
                                         (known.empty() ? "none" : known) + ": package the model for it, too");
}

} // namespace torch_tile::runtime
