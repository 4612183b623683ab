// libtorch_tile_compiler.so, opened when it is first needed.
#pragma once

#include "artifact/Artifact.h"
#include "compiler/c_api.h"
#include "support/Status.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tile::runtime {

class CompilerLibrary {
public:
  /// Opens the library next to this extension on the first call. Throws c10::Error if that fails; a later call tries
  /// again.
  static const CompilerLibrary &get();
  static bool isOpen();

  /// Opens this file instead of the one next to the extension. No effect once a library is open.
  static void setPath(std::string path);

  const std::string &version() const { return versionText; }
  /// See ttc_describe_processor.
  std::string describeProcessor(const std::string &name) const;
  artifact::Hash hash(std::span<const uint8_t> bytes) const;

  struct CompileRequest {
    std::string_view text;
    std::string options;                                               // "key=value" lines
    std::function<void(const char *file, std::string_view data)> dump; // may be empty
    std::function<bool(const artifact::Hash &)> hasKernel;             // may be empty
  };
  /// Exceptions of the callbacks stop nothing: they are kept and rethrown after the compiler has returned.
  Status compile(const CompileRequest &request, std::vector<uint8_t> &artifactBytes) const;

  /// One kernel of the tile dialect, or of Triton's IR, to the bytes of a standalone kernel.
  Status compileKernel(const CompileRequest &request, std::vector<uint8_t> &kernelBytes) const;
  /// Triton's IR in generic form to text of the tile dialect.
  Status importTriton(std::string_view text, bool isEmbeddable, bool pointersFirst, std::string &tile) const;

  Status load(std::span<const uint8_t> object, const std::string &symbol, void *&function, void *&handle) const;
  void unload(void *handle) const { functions.unload(handle); }

  /// See ttc_inject_fault.
  int injectFault(const std::string &fault) const {
    return functions.injectFault ? functions.injectFault(fault.c_str()) : 0;
  }

private:
  explicit CompilerLibrary(const std::string &path);

  struct {
    decltype(&ttc_version) version;
    decltype(&ttc_describe_processor) describeProcessor;
    decltype(&ttc_hash) hash;
    decltype(&ttc_compile) compile;
    decltype(&ttc_compile_kernel) compileKernel;
    decltype(&ttc_import_triton) importTriton;
    decltype(&ttc_load) load;
    decltype(&ttc_unload) unload;
    decltype(&ttc_inject_fault) injectFault;
    decltype(&ttc_buffer_free) bufferFree;
    decltype(&ttc_status_free) statusFree;
  } functions;
  std::string versionText;

  Status compileWith(decltype(&ttc_compile) compile, const CompileRequest &request, std::vector<uint8_t> &bytes) const;
  Status take(ttc_status &status) const;
};

} // namespace torch_tile::runtime
