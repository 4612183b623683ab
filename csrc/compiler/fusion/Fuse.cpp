#include "compiler/fusion/Fusion.h"

#include "llvm/Support/raw_ostream.h"

namespace torch_tile::fusion {

void fuse(mlir::graph::FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions) {
  if (options.enabled)
    reuseBuffers(func);
  if (options.machine.mergesLoads)
    mergeLoads(func);
  if (options.machine.joinsScatters)
    splitScatters(func, decisions);
  inlineProducers(func, options, decisions);
  if (options.enabled)
    simplifyMasks(func);
  if (options.enabled)
    joinExponentialSums(func, options, decisions);
  splitReductions(func, options, decisions);
  if (options.machine.splitsVectors && options.enabled)
    splitVectors(func, options, decisions);
  if (options.machine.splitsScans)
    splitScans(func, decisions);
  chooseStrides(func);
  formGroups(func, options, decisions);
  if (options.elideRoundings)
    elideRoundings(func);
}

std::string print(llvm::ArrayRef<FusionDecision> decisions) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const FusionDecision &decision : decisions) {
    const char *verb = decision.kind == FusionDecision::Kind::Inline  ? "inline"
                       : decision.kind == FusionDecision::Kind::Split ? "split"
                       : decision.kind == FusionDecision::Kind::Place ? "place"
                                                                      : "join";
    os << (decision.taken ? "yes " : "no  ") << verb;
    if (decision.producerLine)
      os << " line " << decision.producerLine;
    if (decision.consumerLine)
      os << (decision.producerLine ? " with line " : " line ") << decision.consumerLine;
    os << ": " << decision.reason << '\n';
  }
  return text;
}

} // namespace torch_tile::fusion
