#include "compiler/loader/Loader.h"

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
#include <optional>

using namespace torch_tile;
namespace orc = llvm::orc;

LoadedCode::~LoadedCode() = default;

namespace {
/// One session for the process. Never destroyed: code may run until the very end.
struct Session {
  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  std::atomic<uint64_t> numLoaded{0};

  Session(std::unique_ptr<orc::ExecutorProcessControl> control,
          std::unique_ptr<llvm::jitlink::JITLinkMemoryManager> memory)
      : session(std::move(control)), layer(session, std::move(memory)) {
    // Errors reach whoever looks a symbol up; the session's own report would print them a second time.
    session.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
  }
};

class JitCode final : public LoadedCode {
public:
  JitCode(Session &session, orc::JITDylib &library) : session(session), library(library) {}
  ~JitCode() override { llvm::consumeError(session.session.removeJITDylib(library)); }

private:
  Session &session;
  orc::JITDylib &library;
};
} // namespace

static llvm::Expected<Session *> getSession() {
  struct Result {
    Session *session = nullptr;
    std::string error;
  };
  static const Result result = [] {
    Result r;
    auto control = orc::SelfExecutorProcessControl::Create();
    auto memory = llvm::jitlink::InProcessMemoryManager::Create();
    if (control && memory) {
      r.session = new Session(std::move(*control), std::move(*memory));
      return r;
    }
    llvm::raw_string_ostream stream(r.error);
    if (!control)
      stream << control.takeError();
    if (!memory)
      stream << memory.takeError();
    return r;
  }();
  if (!result.session)
    return llvm::createStringError(result.error);
  return result.session;
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
