// How far computed indices move from one point of an axis to the next.
#pragma once

#include "compiler/tile/build/FusedLoops.h"

namespace torch_tile::tile_build {

/// What is known of how a value changes along an axis, where it is computed and not looked up: neighbours of a warped
/// image are neighbours in the image, an index tensor may name anything.
class IndexSteps {
public:
  /// `points`: of the whole nest.
  IndexSteps(FusedLoops &loops, llvm::StringRef axis, double points) : loops(loops), axis(axis), points(points) {}

  /// From one point to the next, as an estimate.
  struct Step {
    enum Kind {
      Any,    ///< it may be anything
      Field,  ///< of positions that are looked up as a field of floats: something like `value`
      Smooth, ///< a float that follows the axis, of unknown scale
      Known
    } kind = Any;
    double value = 0;
  };
  Step of(mlir::Value index);
  /// Of an offset over the axis and scalars, in elements; nothing where it may be anything. `own`: what it moves along
  /// the axis where no scalar does.
  std::optional<double> ofOffset(SizeExpr offset, SizeExpr own, mlir::ValueRange scalars);

private:
  bool isCoordinate(mlir::Value value, Step step);
  Step follow(mlir::Value a, mlir::Value b);
  Step stepOf(mlir::Value value);
  Step compute(mlir::Operation *op);
  Step ofLoad(mlir::graph::LoadOp load);
  Step ofIndex(mlir::graph::IndexOp index);

  FusedLoops &loops;
  llvm::StringRef axis;
  double points;
  llvm::DenseMap<mlir::Value, Step> known;
};

} // namespace torch_tile::tile_build
