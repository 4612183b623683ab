// Which ATen overload becomes which op of the graph dialect, and by which rule.
#pragma once

#include <string_view>

namespace torch_tile::runtime::fx {

class Call;

/// Prints a call. Null on success, else why the call goes outside instead.
using ImportRule = const char *(*)(Call & call);

/// Which dtypes a rule takes: those that kernels compute in, those that kernels read and write, or any.
enum class Dtypes { Generated, Converted, Any };

struct OpRule {
  const char *name; // as OpOverload.name() gives it, aten::default overloads without ".default"
  ImportRule import;
  const char *op;
  /// More than those that kernels compute in: it moves elements without looking at them.
  Dtypes dtypes = Dtypes::Generated;
};

/// Null if the overload has no rule.
const OpRule *findRule(std::string_view name);

// ImportPointwise.cpp
const char *importPromoted(Call &call);
const char *importBound(Call &call);
const char *importArithmetic(Call &call);
const char *importMultiply(Call &call);
const char *importFma(Call &call); // a number among the operands is in f32 as well
const char *importIntToFloat(Call &call);
const char *importIntToFloatUnary(Call &call);
const char *importDivide(Call &call);
const char *importSame(Call &call);     // unary, keeps the dtype
const char *importRounding(Call &call); // unary, nothing to do for integers
const char *importCompare(Call &call);
const char *importLogical(Call &call);
const char *importLogicalUnary(Call &call);
const char *importBitwiseNot(Call &call);
const char *importIsNonFinite(Call &call);
const char *importAddScaled(Call &call); // add, sub with alpha
const char *importRsub(Call &call);
const char *importDivideMode(Call &call);
const char *importPow(Call &call);
const char *importClamp(Call &call);
const char *importWhere(Call &call);
const char *importMaskedFill(Call &call);
const char *importCast(Call &call);
const char *importConvertElementType(Call &call);
const char *importGelu(Call &call);
// ImportView.cpp
const char *importView(Call &call);
const char *importForward(Call &call); // the operand itself
const char *importTranspose(Call &call);
const char *importPermute(Call &call);
const char *importExpand(Call &call);
const char *importSlice(Call &call);
const char *importSelect(Call &call);
const char *importSplit(Call &call);
const char *importUnbind(Call &call);
const char *importDiagonal(Call &call);
const char *importUnfold(Call &call);
const char *importAsStrided(Call &call);
const char *importFlip(Call &call);
// ImportCopy.cpp
const char *importClone(Call &call);
const char *importCopy(Call &call);
const char *importCopyInto(Call &call);
// ImportJoin.cpp
const char *importCat(Call &call);
const char *importStack(Call &call);
const char *importConstantPad(Call &call);
const char *importRepeat(Call &call);
const char *importSliceBackward(Call &call);
const char *importSelectBackward(Call &call);
const char *importSliceScatter(Call &call);
const char *importSelectScatter(Call &call);
// ImportCreation.cpp
const char *importFull(Call &call);    // value is argument 1
const char *importNewFull(Call &call); // value is argument 2
const char *importZeros(Call &call);
const char *importOnes(Call &call);
const char *importNumberTensor(Call &call);
const char *importScalarTensor(Call &call);
const char *importArange(Call &call);
const char *importPrimsIota(Call &call);
const char *importPhilox(Call &call);
// ImportIndex.cpp
const char *importEmbedding(Call &call);
const char *importIndex(Call &call);
const char *importIndexSelect(Call &call);
const char *importGather(Call &call);
// ImportScatter.cpp
const char *importIndexPut(Call &call);
const char *importEmbeddingBackward(Call &call);
const char *importIndexWrite(Call &call); // op: how values are combined with what is there
const char *importIndexFill(Call &call);
const char *importIndexReduce(Call &call);
const char *importScatter(Call &call); // likewise; "fold" and "reduce" read it from the arguments
const char *importScan(Call &call);
// ImportReduction.cpp
const char *importReduction(Call &call); // dims in argument 1, keepdim in 2
const char *importReduceAll(Call &call);
const char *importArgReduction(Call &call);
const char *importMaxDim(Call &call);
const char *importVar(Call &call);
const char *importStd(Call &call);
const char *importVarMean(Call &call);
const char *importSoftmax(Call &call);
const char *importSoftmaxBackward(Call &call);
const char *importLayerNorm(Call &call);

// ImportChecks.cpp
const char *importAssertScalar(Call &call);
const char *importConstrainRange(Call &call);
// ImportPrims.cpp
const char *importPrimsReduction(Call &call);
const char *importPrimsVar(Call &call);
const char *importPrimsDivide(Call &call);
const char *importBroadcastInDim(Call &call);

} // namespace torch_tile::runtime::fx
