// Axes of fusion groups: substitution of axes, and mixed-radix digits, by which differently shaped iteration spaces are
// brought together.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

namespace torch_tile::fusion {

struct Axis {
  std::string name;
  SizeExpr extent;
  bool reduced = false;
};

llvm::SmallVector<Axis> axesOf(mlir::graph::LoopsOp op);

/// What to put in the place of axes, all at once.
class AxisSubstitution {
public:
  void set(llvm::StringRef axis, SizeExpr value) { values[axis] = value; }
  bool empty() const { return values.empty(); }
  SizeExpr apply(SizeContext &sizes, SizeExpr expr) const;

private:
  llvm::StringMap<SizeExpr> values;
};

/// Facts about symbols and the axes of one iteration space.
SizeFacts withAxes(const SizeFacts &symbols, llvm::ArrayRef<Axis> axes);

/// Whether integers of 64 bits hold `expr` and all that it is computed from: index expressions are numbers without end,
/// a program's integers wrap. A size that nothing is known of is taken to be below 2^31.
bool staysInRange(const SizeFacts &facts, SizeExpr expr);

/// The axes of `op` without those of one point, split where index expressions take them apart (i//64, i%64), each with
/// a fresh name from `prefix` and `next`. `axisMap` receives each of the op's axes over the new ones.
llvm::SmallVector<Axis> splitAxesOf(mlir::graph::LoopsOp op, llvm::StringRef prefix, unsigned &next,
                                    const SizeFacts &facts, llvm::SmallVectorImpl<SizeExpr> &axisMap);

/// Whether an index expression over `axes` holds a quotient or a remainder that no digits of the axes take the place
/// of: each point divides.
bool staysDivided(SizeExpr expr, llvm::ArrayRef<Axis> axes, const SizeFacts &facts);

/// One digit of a mixed-radix number: an axis and its extent.
struct Digit {
  std::string axis;
  SizeExpr extent;
};

/// Reads `expr` as a mixed-radix number over axes, most significant digit first: a*E_b*E_c + b*E_c + c. Nothing if it
/// is not one, or if the digits do not fill `extent` exactly. A constant 0 with extent 1 has no digits.
std::optional<llvm::SmallVector<Digit>> digitsOf(SizeExpr expr, SizeExpr extent, llvm::ArrayRef<Axis> axes,
                                                 const SizeFacts &facts);

/// Brings two sequences of digits (most significant first) with equal products to a common refinement. Splits are told
/// to the callbacks, each of which returns the two names of the split axis (outer, inner); `unify` is told which digits
/// are the same. False if no common refinement is provable.
struct DigitMatcher {
  std::function<std::pair<std::string, std::string>(const Digit &digit, SizeExpr outer, SizeExpr inner)> splitLeft,
      splitRight;
  std::function<bool(const Digit &left, const Digit &right)> unify;
};
bool matchDigits(llvm::ArrayRef<Digit> left, llvm::ArrayRef<Digit> right, const SizeFacts &facts,
                 const DigitMatcher &matcher);

} // namespace torch_tile::fusion
