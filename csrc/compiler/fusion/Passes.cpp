#include "compiler/fusion/Passes.h"

#include "compiler/fusion/Fusion.h"

namespace torch_tile::fusion {

#define GEN_PASS_DEF_CHOOSESTRIDES
#define GEN_PASS_DEF_ELIDEROUNDINGS
#define GEN_PASS_DEF_INLINEPRODUCERS
#define GEN_PASS_DEF_JOINEXPONENTIALSUMS
#define GEN_PASS_DEF_MERGELOADS
#define GEN_PASS_DEF_REUSEBUFFERS
#define GEN_PASS_DEF_SIMPLIFYMASKS
#define GEN_PASS_DEF_SPLITREDUCTIONS
#define GEN_PASS_DEF_SPLITSCANS
#define GEN_PASS_DEF_SPLITSCATTERS
#define GEN_PASS_DEF_SPLITVECTORS
#define GEN_PASS_DEF_FORMGROUPS
#include "compiler/fusion/Passes.h.inc"

namespace {

struct ChooseStridesPass : impl::ChooseStridesBase<ChooseStridesPass> {
  void runOnOperation() override { chooseStrides(getOperation()); }
};

struct ElideRoundingsPass : impl::ElideRoundingsBase<ElideRoundingsPass> {
  void runOnOperation() override { elideRoundings(getOperation()); }
};

struct InlineProducersPass : impl::InlineProducersBase<InlineProducersPass> {
  using InlineProducersBase::InlineProducersBase;
  void runOnOperation() override {
    std::vector<FusionDecision> decisions;
    FusionOptions options;
    options.budget.bodyWork = bodyBudget;
    options.budget.indexNodes = indexBudget;
    inlineProducers(getOperation(), options, decisions);
    for (const FusionDecision &decision : decisions)
      if (decision.isForBudget)
        getOperation().emitRemark("stays in memory: ") << decision.reason;
  }
};

struct JoinExponentialSumsPass : impl::JoinExponentialSumsBase<JoinExponentialSumsPass> {
  void runOnOperation() override {
    std::vector<FusionDecision> decisions;
    FusionOptions options;
    options.machine = Machine::gpu();
    joinExponentialSums(getOperation(), options, decisions);
  }
};

struct MergeLoadsPass : impl::MergeLoadsBase<MergeLoadsPass> {
  void runOnOperation() override { mergeLoads(getOperation()); }
};

struct ReuseBuffersPass : impl::ReuseBuffersBase<ReuseBuffersPass> {
  void runOnOperation() override { reuseBuffers(getOperation()); }
};

struct SimplifyMasksPass : impl::SimplifyMasksBase<SimplifyMasksPass> {
  void runOnOperation() override { simplifyMasks(getOperation()); }
};

struct SplitVectorsPass : impl::SplitVectorsBase<SplitVectorsPass> {
  void runOnOperation() override {
    std::vector<FusionDecision> decisions;
    FusionOptions options;
    options.machine = Machine::gpu();
    splitVectors(getOperation(), options, decisions);
  }
};

struct SplitReductionsPass : impl::SplitReductionsBase<SplitReductionsPass> {
  void runOnOperation() override {
    std::vector<FusionDecision> decisions;
    splitReductions(getOperation(), {}, decisions);
  }
};

struct SplitScansPass : impl::SplitScansBase<SplitScansPass> {
  void runOnOperation() override {
    std::vector<FusionDecision> decisions;
    splitScans(getOperation(), decisions);
  }
};

struct SplitScattersPass : impl::SplitScattersBase<SplitScattersPass> {
  void runOnOperation() override {
    std::vector<FusionDecision> decisions;
    splitScatters(getOperation(), decisions);
  }
};

struct FormGroupsPass : impl::FormGroupsBase<FormGroupsPass> {
  using FormGroupsBase::FormGroupsBase;
  void runOnOperation() override {
    std::vector<FusionDecision> decisions;
    FusionOptions options;
    options.machine.joinsScatters = joinsScatters;
    formGroups(getOperation(), options, decisions);
  }
};

} // namespace
} // namespace torch_tile::fusion
