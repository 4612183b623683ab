// What every entry of the compiler begins with: a context, parsing, and errors as a Status.
#pragma once

#include "support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"

#include <string_view>

namespace torch_tile {

/// Version of this library and of LLVM, on one line.
std::string compilerVersion();

mlir::DialectRegistry makeRegistry();

/// Only the dialects that come before kernels' code are loaded: kernels are compiled in contexts of their workers.
mlir::OwningOpRef<mlir::ModuleOp> parseModule(std::string_view text, mlir::MLIRContext &context);

/// Keeps the first error of a compile, with the line of the text it points to.
class ErrorCollector {
public:
  /// `stage` names the stage under way; it is read when the status is made.
  ErrorCollector(mlir::MLIRContext &context, const char *const &stage);
  /// The error as a status of `kind`, or of kind Unsupported or OutOfResources if its text says so.
  Status status(StatusKind kind) const;

private:
  void record(mlir::Diagnostic &diagnostic);

  const char *const &stage;
  std::string text;
  int line = 0;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace torch_tile
