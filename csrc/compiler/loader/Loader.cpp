#include "compiler/loader/Loader.h"

#include "support/FaultPoint.h"

#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"

#include <atomic>
#include <dlfcn.h>
#include <unistd.h>

using namespace torch_tile;
namespace orc = llvm::orc;

LoadedCode::~LoadedCode() = default;

namespace {
/// One session for the process, which holds locks while it works. Never destroyed: code may run until the very end.
struct Session {
  const pid_t owner = getpid();
  /// A load may have ended with the session's locks held.
  std::atomic<bool> isAbandoned{false};
  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  std::atomic<uint64_t> numLoaded{0};

  Session(std::unique_ptr<orc::ExecutorProcessControl> control,
          std::unique_ptr<llvm::jitlink::JITLinkMemoryManager> memory)
      : session(std::move(control)), layer(session, std::move(memory)) {
    // A symbol lookup returns its errors; the session's own report would print them a second time.
    session.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
  }
};

class JitCode final : public LoadedCode {
public:
  JitCode(Session &session, orc::JITDylib &library) : session(session), library(library) {}
  ~JitCode() override {
    // A child's copy of a session may be locked by a thread of the parent.
    if (!session.isAbandoned && session.owner == getpid())
      llvm::consumeError(session.session.removeJITDylib(library));
  }

private:
  Session &session;
  orc::JITDylib &library;
};
} // namespace

static std::atomic<Session *> currentSession{nullptr};

static llvm::Expected<Session *> getSession() {
  Session *current = currentSession.load();
  if (current && current->owner == getpid())
    return current;
  auto control = orc::SelfExecutorProcessControl::Create();
  if (!control)
    return control.takeError();
  auto memory = llvm::jitlink::InProcessMemoryManager::Create();
  if (!memory)
    return memory.takeError();
  auto *fresh = new Session(std::move(*control), std::move(*memory));
  if (currentSession.compare_exchange_strong(current, fresh))
    return fresh;
  llvm::consumeError(fresh->session.endSession());
  delete fresh;
  return current;
}

void torch_tile::abandonLoader() {
  if (Session *session = currentSession.exchange(nullptr))
    session->isAbandoned = true;
}

/// Defines what the object leaves undefined, so that linking never searches.
static llvm::Error defineExternals(Session &session, orc::JITDylib &library, llvm::MemoryBufferRef object,
                                   const ResolveFn &resolve) {
  auto file = llvm::object::ObjectFile::createObjectFile(object);
  if (!file)
    return file.takeError();
  orc::SymbolMap symbols;
  for (const llvm::object::SymbolRef &reference : (*file)->symbols()) {
    auto flags = reference.getFlags();
    if (!flags)
      return flags.takeError();
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined))
      continue;
    auto name = reference.getName();
    if (!name)
      return name.takeError();
    if (name->empty())
      continue;
    std::string text = name->str();
    void *address = resolve ? resolve(text.c_str()) : nullptr;
    if (!address)
      address = dlsym(RTLD_DEFAULT, text.c_str());
    if (!address)
      return llvm::createStringError("function '" + text + "' that the code calls is nowhere in the process");
    symbols[session.session.intern(text)] = {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  }
  return symbols.empty() ? llvm::Error::success() : library.define(orc::absoluteSymbols(std::move(symbols)));
}

static llvm::Expected<std::unique_ptr<LoadedCode>> load(std::span<const uint8_t> object, const std::string &symbol,
                                                        const ResolveFn &resolve) {
  FaultPoints::reach("link");
  auto session = getSession();
  if (!session)
    return session.takeError();
  auto &execution = (*session)->session;
  llvm::StringRef bytes(reinterpret_cast<const char *>(object.data()), object.size());
  std::unique_ptr<llvm::MemoryBuffer> buffer = llvm::MemoryBuffer::getMemBufferCopy(bytes, symbol);
  orc::JITDylib &library = execution.createBareJITDylib("kernel" + std::to_string((*session)->numLoaded++));
  auto code = std::make_unique<JitCode>(**session, library);
  if (llvm::Error error = defineExternals(**session, library, buffer->getMemBufferRef(), resolve))
    return std::move(error);
  if (llvm::Error error = (*session)->layer.add(library, std::move(buffer)))
    return std::move(error);
  auto found = execution.lookup({&library}, execution.intern(symbol));
  if (!found)
    return found.takeError();
  code->function = found->getAddress().toPtr<void *>();
  return code;
}

Status torch_tile::loadObject(std::span<const uint8_t> object, const std::string &symbol, const ResolveFn &resolve,
                              std::unique_ptr<LoadedCode> &code) {
  auto loaded = load(object, symbol, resolve);
  if (!loaded)
    return Status::internal("load", llvm::toString(loaded.takeError()));
  code = std::move(*loaded);
  return Status::ok();
}
