#include "compiler/driver/Frontend.h"

#include "compiler/codegen/cpu/CompileKernel.h"
#include "compiler/driver/Compile.h"
#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;
using namespace torch_tile;

/// What locations call the text that was given.
static constexpr char textName[] = "graph.mlir";
static constexpr char libraryVersion[] = TORCH_TILE_VERSION "+" TORCH_TILE_COMPILER_FINGERPRINT;

std::string torch_tile::compilerVersion() { return std::string(libraryVersion) + " LLVM " + LLVM_VERSION_STRING; }

DialectRegistry torch_tile::makeRegistry() {
  DialectRegistry registry;
  registry.insert<graph::GraphDialect>();
  codegen::registerKernelDialects(registry);
  return registry;
}

OwningOpRef<ModuleOp> torch_tile::parseModule(std::string_view text, MLIRContext &context) {
  context
      .loadDialect<graph::GraphDialect, tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  return parseSourceString<ModuleOp>(StringRef(text.data(), text.size()), ParserConfig(&context), textName);
}

ErrorCollector::ErrorCollector(MLIRContext &context, const char *const &stage)
    : stage(stage), handler(&context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          record(diagnostic);
        return success();
      }) {}

Status ErrorCollector::status(StatusKind kind) const {
  if (StringRef(text).contains("unsupported: "))
    kind = StatusKind::Unsupported;
  if (StringRef(text).contains("out of resources: "))
    kind = StatusKind::OutOfResources;
  return {kind, stage, text.empty() ? "no reason given" : text, line};
}

void ErrorCollector::record(Diagnostic &diagnostic) {
  if (!text.empty())
    return;
  text = diagnostic.str();
  diagnostic.getLocation()->walk([&](Location location) {
    auto position = dyn_cast<FileLineColLoc>(location);
    if (!position)
      return WalkResult::advance();
    if (position.getFilename() == textName) {
      line = position.getLine();
    } else {
      // A kernel's op, which knows its place in the user's source.
      std::string place = position.getFilename().str() + ":" + std::to_string(position.getLine());
      if (text.find(place) == std::string::npos)
        text = place + ": " + text;
    }
    return WalkResult::interrupt();
  });
}

std::string torch_tile::describeVersion() {
  codegen::CpuOptions host = codegen::CpuOptions::host();
  return std::string("torch-tile ") + libraryVersion + "\nLLVM " + LLVM_VERSION_STRING + "\n" + host.cpu + " " +
         host.features + "\n";
}
