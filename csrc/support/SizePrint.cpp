// The text form of expressions, which SizeParse.cpp reads.
#include "support/SizeFunctions.h"
#include "support/SizeNodes.h"

#include <algorithm>

using namespace torch_tile;
using namespace torch_tile::detail;

static void printExpr(std::string &out, SizeExpr e);

static void printParenthesized(std::string &out, SizeExpr e) {
  out += '(';
  printExpr(out, e);
  out += ')';
}

/// Prints so that any operator may stand beside it.
static void printOperand(std::string &out, SizeExpr e) {
  const SizeAtom *atom = asAtom(e);
  auto value = e.constant();
  if ((atom && (atom->isSymbol || atom->fn != SizeFn::FloorDiv)) || (value && *value >= 0))
    printExpr(out, e);
  else
    printParenthesized(out, e);
}

static void printAtom(std::string &out, const SizeAtom *atom) {
  if (atom->isSymbol) {
    out += atom->name;
    return;
  }
  if (atom->fn == SizeFn::FloorDiv) {
    printOperand(out, atom->args[0]);
    out += "//";
    printOperand(out, atom->args[1]);
    return;
  }
  auto it = std::find_if(sizeFunctions.begin(), sizeFunctions.end(), [&](auto &f) { return f.fn == atom->fn; });
  out += it->name;
  const char *separator = "(";
  for (SizeExpr arg : atom->args) {
    out += separator;
    printExpr(out, arg);
    separator = ", ";
  }
  out += ')';
}

static void printExpr(std::string &out, SizeExpr e) {
  if (!e.isValid()) {
    out += "<invalid>";
    return;
  }
  auto terms = e.get()->terms;
  if (terms.empty())
    out += '0';
  for (size_t i = 0; i < terms.size(); ++i) {
    int64_t coefficient = terms[i].coefficient;
    bool isFirst = i == 0;
    // The most negative integer has no positive counterpart, so its sign stays with its digits.
    bool isNegative = coefficient < 0 && coefficient != INT64_MIN;
    out += isFirst ? (isNegative ? "-" : "") : (isNegative ? " - " : " + ");
    std::string digits = std::to_string(isNegative ? -coefficient : coefficient);
    if (coefficient == INT64_MIN && (!isFirst || terms[i].monomial->degree != 0))
      digits = "(" + digits + ")";
    auto factors = terms[i].monomial->factors;
    if (factors.empty()) {
      out += digits;
      continue;
    }
    bool isAlone = factors.size() == 1 && factors[0].power == 1 && digits == "1" && !(isFirst && isNegative);
    const char *separator = "";
    for (const SizeFactor &f : factors) {
      out += separator;
      separator = "*";
      if (isAlone)
        printAtom(out, f.atom);
      else
        printOperand(out, SizeExpr(f.atom->node));
      if (f.power != 1)
        out += "**" + std::to_string(f.power);
    }
    if (digits != "1")
      out += "*" + digits;
  }
}

// Text is a tree, though expressions share their parts. Fusion keeps expressions far below this; what is beyond it
// would fill the memory, so it is no text that can be read back.
static constexpr uint32_t mostPrinted = 1 << 16;

std::string SizeExpr::str() const {
  if (node->treeSize > mostPrinted)
    return "<expression of " + std::to_string(node->treeSize) + " nodes>";
  std::string out;
  printExpr(out, *this);
  return out;
}
