#include "runtime/launch/gpu/Assemble.h"

#include "artifact/LaunchNote.h"
#include "runtime/launch/gpu/Resources.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>

extern char **environ;

namespace torch_tile::runtime {
namespace {

//===-- nvJitLink -----------------------------------------------------------------------------------------------===//

/// The functions of libnvJitLink, whose names are the same in every version since 12.
struct JitLink {
  using Handle = struct JitLinkHandle *;
  static constexpr int inputIsPtx = 2;

  int (*create)(Handle *, uint32_t numOptions, const char **options) = nullptr;
  int (*destroy)(Handle *) = nullptr;
  int (*addData)(Handle, int kind, const void *data, size_t size, const char *name) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubinSize)(Handle, size_t *) = nullptr;
  int (*cubin)(Handle, void *) = nullptr;
  int (*errorLogSize)(Handle, size_t *) = nullptr;
  int (*errorLog)(Handle, char *) = nullptr;

  /// Null where there is no such library.
  static const JitLink *get() {
    static const std::optional<JitLink> library = open();
    return library ? &*library : nullptr;
  }

private:
  /// Torch's libraries depend on it, so it is usually in the process already and found by its name.
  static std::optional<JitLink> open() {
    void *handle = nullptr;
    if (const char *path = std::getenv("TORCH_TILE_NVJITLINK"))
      handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (const char *name : {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"})
      if (!handle)
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return std::nullopt;
    JitLink library;
    bool hasAll = true;
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      hasAll &= function != nullptr;
    };
    find(library.create, "nvJitLinkCreate");
    find(library.destroy, "nvJitLinkDestroy");
    find(library.addData, "nvJitLinkAddData");
    find(library.complete, "nvJitLinkComplete");
    find(library.cubinSize, "nvJitLinkGetLinkedCubinSize");
    find(library.cubin, "nvJitLinkGetLinkedCubin");
    find(library.errorLogSize, "nvJitLinkGetErrorLogSize");
    find(library.errorLog, "nvJitLinkGetErrorLog");
    return hasAll ? std::optional(library) : std::nullopt;
  }
};

std::string link(const JitLink &library, std::vector<uint8_t> &code, const std::string &architecture) {
  std::string option = "-arch=" + architecture;
  const char *options[] = {option.c_str(), "-O3"};
  JitLink::Handle handle = nullptr;
  if (library.create(&handle, 2, options) != 0)
    return "nvJitLink does not know " + architecture;
  std::vector<uint8_t> text = code;
  text.push_back(0);
  size_t size = 0;
  bool isDone = library.addData(handle, JitLink::inputIsPtx, text.data(), text.size(), "kernel") == 0 &&
                library.complete(handle) == 0 && library.cubinSize(handle, &size) == 0;
  std::string error;
  if (isDone) {
    std::vector<uint8_t> cubin(size);
    isDone = library.cubin(handle, cubin.data()) == 0;
    if (isDone)
      code = std::move(cubin);
  }
  if (!isDone) {
    error = "nvJitLink gave no reason";
    if (library.errorLogSize(handle, &size) == 0 && size > 1) {
      error.resize(size);
      library.errorLog(handle, error.data());
    }
  }
  library.destroy(&handle);
  return error;
}

//===-- ptxas ---------------------------------------------------------------------------------------------------===//

/// Path of ptxas; empty if there is none.
const std::string &findPtxas() {
  static const std::string path = [] {
    std::vector<std::string> folders;
    for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char *home = std::getenv(variable))
        folders.push_back(std::string(home) + "/bin");
    std::string search = std::getenv("PATH") ? std::getenv("PATH") : "";
    for (size_t start = 0; start <= search.size();) {
      size_t end = std::min(search.find(':', start), search.size());
      folders.push_back(search.substr(start, end - start));
      start = end + 1;
    }
    folders.push_back("/usr/local/cuda/bin");
    for (const std::string &folder : folders)
      if (std::string file = folder + "/ptxas"; access(file.c_str(), X_OK) == 0)
        return file;
    return std::string();
  }();
  return path;
}

std::string runPtxas(const std::string &ptxas, std::vector<uint8_t> &code, const std::string &architecture) {
  char folder[] = "/tmp/torch-tile-XXXXXX";
  if (!mkdtemp(folder))
    return "no temporary folder for ptxas";
  std::string base = folder, source = base + "/kernel.ptx", result = base + "/kernel.cubin", log = base + "/log";
  std::ofstream(source, std::ios::binary).write(reinterpret_cast<const char *>(code.data()), std::ssize(code));
  std::string option = "-arch=" + architecture;
  const char *arguments[] = {ptxas.c_str(), option.c_str(), source.c_str(), "-o", result.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_CREAT | O_WRONLY, 0600);
  pid_t child;
  int status = posix_spawn(&child, ptxas.c_str(), &actions, nullptr, const_cast<char *const *>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (status == 0)
    waitpid(child, &status, 0);
  auto readAll = [](const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  std::string cubin = readAll(result), error;
  if (status == 0 && !cubin.empty())
    code.assign(cubin.begin(), cubin.end());
  else
    error = "ptxas: " + readAll(log);
  for (const std::string &path : {source, result, log})
    unlink(path.c_str());
  rmdir(folder);
  return error;
}

} // namespace

bool isPtx(const std::vector<uint8_t> &code) { return code.size() > 1 && code[0] == '/' && code[1] == '/'; }

static std::string assembleAsIs(std::vector<uint8_t> &code, const std::string &architecture) {
  if (const JitLink *library = JitLink::get())
    return link(*library, code, architecture);
  const std::string &ptxas = findPtxas();
  return ptxas.empty() ? "" : runPtxas(ptxas, code, architecture);
}

//===-- launch bounds -------------------------------------------------------------------------------------------===//

/// The number behind a word of the text; 0 if there is none.
static uint32_t numberBehind(std::string_view text, std::string_view word) {
  size_t start = text.find(word);
  uint32_t number = 0;
  if (start != std::string_view::npos)
    std::from_chars(text.data() + start + word.size(), text.data() + text.size(), number);
  return number;
}

/// PTX with a launch bound of so many blocks in place of the note.
static std::vector<uint8_t> withLaunchBound(std::string_view ptx, std::string_view note, uint32_t numBlocks) {
  size_t start = ptx.find(note), end = std::min(ptx.find('\n', start), ptx.size());
  std::string result(ptx.substr(0, start));
  result += ".minnctapersm " + std::to_string(numBlocks);
  result += ptx.substr(end);
  return {result.begin(), result.end()};
}

/// With so few registers a thread the assembler has chosen as many threads as there can be.
static constexpr uint32_t fewRegisters = 40;
/// Registers of a multiprocessor, and in what units a thread has them.
static constexpr uint32_t allRegisters = 64 * 1024, registerUnit = 8;
/// The assembler finds a fifth of a thread's registers by another order of instructions. It would spill more.
static constexpr double leastShare = 0.8;
/// By what blocks must become more. On an H200 a product of 4096 with blocks of 256 threads took 264 us with 147
/// registers, which one block has; Triton's took 215 with 128, as two have. Of nests of a graph, three blocks that
/// became four took 0.68 to 0.86 of the time, seven that became eight up to 1.27.
static constexpr struct {
  std::string_view note;
  double leastGain;
} bounds[] = {{artifact::roomNote, 1.5}, {artifact::waitingNote, 4.0 / 3}};

/// The code with the launch bound that the PTX notes, if what the assembler made without it calls for that; else empty.
static std::vector<uint8_t> boundedFor(std::string_view ptx, const GpuResources &made) {
  if (!made.numRegisters)
    return {};
  if (uint32_t blocks = numberBehind(ptx, artifact::launchBoundNote); blocks && *made.numRegisters <= fewRegisters)
    return withLaunchBound(ptx, artifact::launchBoundNote, blocks);
  uint32_t threads = numberBehind(ptx, ".maxntid ");
  if (threads == 0 || *made.numRegisters == 0)
    return {};
  auto mostFor = [&](uint32_t count) { return allRegisters / (count * threads) / registerUnit * registerUnit; };
  uint32_t now = 0;
  while (mostFor(now + 1) >= *made.numRegisters)
    ++now;
  for (auto [note, leastGain] : bounds)
    for (uint32_t blocks = numberBehind(ptx, note); blocks > now && blocks >= leastGain * now; --blocks)
      if (mostFor(blocks) >= leastShare * *made.numRegisters)
        return withLaunchBound(ptx, note, blocks);
  return {};
}

std::string assemble(std::vector<uint8_t> &code, const std::string &architecture) {
  const std::string note = artifact::launchNote(artifact::sharedBytesOf(code)), ptx(code.begin(), code.end());
  std::string error = assembleAsIs(code, architecture);
  if (!error.empty() || isPtx(code))
    return error;
  GpuResources made = readResources(code);
  if (std::vector<uint8_t> bounded = boundedFor(ptx, made); !bounded.empty() &&
                                                            assembleAsIs(bounded, architecture).empty() &&
                                                            readResources(bounded).localBytes == made.localBytes)
    code = std::move(bounded);
  code.insert(code.end(), note.begin(), note.end());
  return error;
}

std::string assemblerName() { return JitLink::get() ? "nvJitLink" : findPtxas().empty() ? "driver" : "ptxas"; }

} // namespace torch_tile::runtime
