#include "runtime/launch/gpu/Assemble.h"

#include "artifact/LaunchNote.h"
#include "runtime/launch/gpu/Resources.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

/// PTX with the launch bound that it notes; empty where it notes none.
static std::vector<uint8_t> withLaunchBound(const std::vector<uint8_t> &ptx) {
  auto note = std::search(ptx.begin(), ptx.end(), artifact::launchBoundNote.begin(), artifact::launchBoundNote.end());
  if (note == ptx.end())
    return {};
  std::vector<uint8_t> result(ptx);
  std::fill_n(result.begin() + (note - ptx.begin()), 2, ' ');
  return result;
}

/// With so few registers a thread the assembler has chosen as many threads as there can be.
static constexpr uint32_t fewRegisters = 40;

std::string assemble(std::vector<uint8_t> &code, const std::string &architecture) {
  const std::string note = artifact::launchNote(artifact::sharedBytesOf(code));
  std::vector<uint8_t> bounded = withLaunchBound(code);
  std::string error = assembleAsIs(code, architecture);
  if (error.empty() && !isPtx(code) && !bounded.empty() &&
      readResources(code).numRegisters.value_or(fewRegisters + 1) <= fewRegisters &&
      assembleAsIs(bounded, architecture).empty() &&
      readResources(bounded).localBytes == readResources(code).localBytes)
    code = std::move(bounded);
  if (error.empty() && !isPtx(code))
    code.insert(code.end(), note.begin(), note.end());
  return error;
}

std::string assemblerName() { return JitLink::get() ? "nvJitLink" : findPtxas().empty() ? "driver" : "ptxas"; }

} // namespace torch_tile::runtime
