// Interning and the polynomial arithmetic that division builds on.
#include "support/SizeNodes.h"

#include <algorithm>
#include <numeric>

using namespace torch_tile;
using namespace torch_tile::detail;

// Beyond these, expressions are refused as if they had overflowed: real sizes stay far below, hostile text does not.
static constexpr int32_t maxDegree = 1 << 10;
static constexpr size_t maxDivisionSteps = 256;

template <typename T> static int compareValues(const T &a, const T &b) { return a < b ? -1 : b < a ? 1 : 0; }

int detail::compareExprs(SizeExpr a, SizeExpr b) {
  if (a == b)
    return 0;
  auto x = a.get()->terms, y = b.get()->terms;
  for (size_t i = 0, e = std::min(x.size(), y.size()); i < e; ++i) {
    if (int c = compareMonomials(x[i].monomial, y[i].monomial))
      return c;
    if (int c = compareValues(x[i].coefficient, y[i].coefficient))
      return c;
  }
  return compareValues(x.size(), y.size());
}

int detail::compareAtoms(const SizeAtom *a, const SizeAtom *b) {
  if (a == b)
    return 0;
  if (a->isSymbol != b->isSymbol)
    return a->isSymbol ? -1 : 1;
  if (a->isSymbol) {
    if (int c = a->prefix.compare(b->prefix))
      return c;
    if (int c = compareValues(a->number, b->number))
      return c;
    return a->name.compare(b->name);
  }
  if (int c = compareValues(a->fn, b->fn))
    return c;
  if (int c = compareValues(a->args.size(), b->args.size()))
    return c;
  for (size_t i = 0; i < a->args.size(); ++i)
    if (int c = compareExprs(a->args[i], b->args[i]))
      return c;
  return 0;
}

int detail::compareMonomials(const SizeMonomial *a, const SizeMonomial *b) {
  if (a == b)
    return 0;
  if (a->degree != b->degree)
    return a->degree > b->degree ? -1 : 1;
  for (size_t i = 0, e = std::min(a->factors.size(), b->factors.size()); i < e; ++i) {
    if (int c = compareAtoms(a->factors[i].atom, b->factors[i].atom))
      return c;
    if (a->factors[i].power != b->factors[i].power)
      return a->factors[i].power > b->factors[i].power ? -1 : 1;
  }
  return 0;
}

const SizeAtom *detail::asAtom(SizeExpr e) {
  auto terms = e.get()->terms;
  if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].monomial->degree != 1)
    return nullptr;
  return terms[0].monomial->factors[0].atom;
}

std::optional<int64_t> detail::truncDivInt(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1))
    return std::nullopt;
  return a / b;
}

std::optional<int64_t> detail::floorDivInt(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1))
    return std::nullopt;
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::optional<int64_t> detail::floorModInt(int64_t a, int64_t b) {
  if (b == 0)
    return std::nullopt;
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static size_t mix(size_t seed, size_t value) {
  return (seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2))) * 0xff51afd7ed558ccdull;
}

size_t SizeContext::Impl::Hash::operator()(std::span<const SizeFactor> factors) const {
  size_t h = factors.size();
  for (const SizeFactor &f : factors)
    h = mix(mix(h, reinterpret_cast<size_t>(f.atom)), f.power);
  return h;
}

size_t SizeContext::Impl::Hash::operator()(std::span<const SizeTermNode> terms) const {
  size_t h = terms.size();
  for (const SizeTermNode &t : terms)
    h = mix(mix(h, static_cast<size_t>(t.coefficient)), reinterpret_cast<size_t>(t.monomial));
  return h;
}

size_t SizeContext::Impl::CallHash::operator()(const CallKey &key) const {
  size_t h = static_cast<size_t>(key.fn);
  for (SizeExpr arg : key.args)
    h = mix(h, reinterpret_cast<size_t>(arg.opaque()));
  return h;
}

SizeContext::Impl::Impl(SizeContext &owner) : owner(owner) {
  unit = internMonomial({});
  invalid = create(SizeNode{&owner, {}, false, 1, {}});
}

template <typename T> std::span<const T> SizeContext::Impl::copy(std::span<const T> values) {
  static_assert(std::is_trivially_destructible_v<T>);
  if (values.empty())
    return {};
  T *memory = static_cast<T *>(arena.allocate(values.size_bytes(), alignof(T)));
  std::uninitialized_copy(values.begin(), values.end(), memory);
  return {memory, values.size()};
}

template <typename T> T *SizeContext::Impl::create(T value) {
  static_assert(std::is_trivially_destructible_v<T>);
  return new (arena.allocate(sizeof(T), alignof(T))) T(value);
}

static uint32_t saturate(uint64_t size) { return static_cast<uint32_t>(std::min<uint64_t>(size, UINT32_MAX)); }

SizeSymbols SizeContext::Impl::unite(SizeSymbols a, SizeSymbols b) {
  auto isLess = [](const SizeAtom *x, const SizeAtom *y) { return x->name < y->name; };
  if (a.data() == b.data() || std::includes(a.begin(), a.end(), b.begin(), b.end(), isLess))
    return a;
  if (std::includes(b.begin(), b.end(), a.begin(), a.end(), isLess))
    return b;
  std::vector<const SizeAtom *> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both), isLess);
  return copy(SizeSymbols(both));
}

SizeExpr SizeContext::Impl::fromTerms(std::span<const SizeTermNode> terms) {
  auto it = nodes.find(terms);
  if (it != nodes.end())
    return SizeExpr(*it);
  uint64_t treeSize = std::max<size_t>(terms.size(), 1) - 1;
  SizeSymbols symbols;
  for (const SizeTermNode &t : terms) {
    treeSize += t.monomial->treeSize + uint64_t(t.coefficient != 1 || t.monomial->degree == 0);
    symbols = unite(symbols, t.monomial->symbols);
  }
  const SizeNode *node =
      create(SizeNode{&owner, copy(terms), true, saturate(std::max<uint64_t>(treeSize, 1)), symbols});
  nodes.insert(node);
  return SizeExpr(node);
}

SizeExpr SizeContext::Impl::fromUnsortedTerms(std::vector<SizeTermNode> &terms) {
  std::sort(terms.begin(), terms.end(),
            [](const SizeTermNode &a, const SizeTermNode &b) { return compareMonomials(a.monomial, b.monomial) < 0; });
  // Equal monomials are summed exactly: a sum that fits must not depend on the order of its parts.
  size_t size = 0;
  for (size_t i = 0; i < terms.size();) {
    const SizeMonomial *monomial = terms[i].monomial;
    __int128 sum = 0;
    for (; i < terms.size() && terms[i].monomial == monomial; ++i)
      sum += terms[i].coefficient;
    if (sum < INT64_MIN || sum > INT64_MAX)
      return SizeExpr(invalid);
    if (sum != 0)
      terms[size++] = {static_cast<int64_t>(sum), monomial};
  }
  return fromTerms(std::span<const SizeTermNode>(terms.data(), size));
}

SizeExpr SizeContext::Impl::fromTerm(int64_t coefficient, const SizeMonomial *monomial) {
  SizeTermNode term{coefficient, monomial};
  return fromTerms({&term, coefficient == 0 ? size_t(0) : size_t(1)});
}

const SizeMonomial *SizeContext::Impl::internMonomial(std::span<const SizeFactor> factors) {
  auto it = monomials.find(factors);
  if (it != monomials.end())
    return *it;
  int32_t degree = 0;
  uint64_t treeSize = std::max<size_t>(factors.size(), 1) - 1;
  SizeSymbols below;
  for (const SizeFactor &f : factors) {
    degree += f.power;
    treeSize += f.atom->treeSize + uint64_t(f.power != 1);
    below = unite(below, f.atom->symbols);
  }
  const SizeMonomial *monomial = create(SizeMonomial{copy(factors), degree, saturate(treeSize), below});
  monomials.insert(monomial);
  return monomial;
}

const SizeAtom *SizeContext::Impl::finishAtom(SizeAtom prototype) {
  SizeAtom *atom = create(prototype);
  const SizeAtom *self = atom;
  uint64_t treeSize = 1;
  atom->symbols = atom->isSymbol ? copy(SizeSymbols(&self, 1)) : SizeSymbols();
  for (SizeExpr arg : atom->args) {
    treeSize += arg.get()->treeSize;
    atom->symbols = unite(atom->symbols, arg.get()->symbols);
  }
  atom->treeSize = saturate(treeSize);
  SizeFactor factor{atom, 1};
  atom->monomial = internMonomial({&factor, 1});
  atom->node = fromTerm(1, atom->monomial).get();
  return atom;
}

const SizeAtom *SizeContext::Impl::callAtom(SizeFn fn, std::span<const SizeExpr> args) {
  auto it = calls.find(CallKey{fn, args});
  if (it != calls.end())
    return *it;
  const SizeAtom *atom = finishAtom(SizeAtom{false, fn, copy(args), {}, {}, 0, nullptr, nullptr, 0, {}});
  calls.insert(atom);
  return atom;
}

const SizeAtom *SizeContext::Impl::symbolAtom(std::string_view name) {
  auto it = symbols.find(name);
  if (it != symbols.end())
    return it->second;
  std::span<const char> stored = copy(std::span<const char>(name.data(), name.size()));
  name = std::string_view(stored.data(), stored.size());
  // 18 digits fit the number; longer tails are told apart by the prefix.
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9' && name.size() - digits < 18)
    --digits;
  uint64_t number = 0;
  for (char c : name.substr(digits))
    number = number * 10 + static_cast<uint64_t>(c - '0');
  const SizeAtom *atom =
      finishAtom(SizeAtom{true, SizeFn::FloorDiv, {}, name, name.substr(0, digits), number, nullptr, nullptr, 0, {}});
  symbols.emplace(name, atom);
  return atom;
}

const SizeMonomial *SizeContext::Impl::multiply(const SizeMonomial *a, const SizeMonomial *b) {
  if (a->degree == 0)
    return b;
  if (b->degree == 0)
    return a;
  if (a->degree + b->degree > maxDegree)
    return nullptr;
  std::vector<SizeFactor> factors;
  factors.reserve(a->factors.size() + b->factors.size());
  auto x = a->factors.begin(), y = b->factors.begin();
  while (x != a->factors.end() && y != b->factors.end()) {
    int c = compareAtoms(x->atom, y->atom);
    if (c == 0) {
      factors.push_back({x->atom, x->power + y->power});
      ++x, ++y;
    } else {
      factors.push_back(c < 0 ? *x++ : *y++);
    }
  }
  factors.insert(factors.end(), x, a->factors.end());
  factors.insert(factors.end(), y, b->factors.end());
  return internMonomial(factors);
}

const SizeMonomial *SizeContext::Impl::divide(const SizeMonomial *a, const SizeMonomial *b) {
  if (b->degree == 0)
    return a;
  if (b->degree > a->degree || b->factors.size() > a->factors.size())
    return nullptr;
  std::vector<SizeFactor> factors;
  auto y = b->factors.begin();
  for (const SizeFactor &x : a->factors) {
    if (y == b->factors.end() || x.atom != y->atom) {
      factors.push_back(x);
      continue;
    }
    if (x.power < y->power)
      return nullptr;
    if (x.power > y->power)
      factors.push_back({x.atom, x.power - y->power});
    ++y;
  }
  return y == b->factors.end() ? internMonomial(factors) : nullptr;
}

const SizeMonomial *SizeContext::Impl::gcd(const SizeMonomial *a, const SizeMonomial *b) {
  if (a == b || a->degree == 0)
    return a;
  std::vector<SizeFactor> factors;
  for (const SizeFactor &x : a->factors)
    for (const SizeFactor &y : b->factors)
      if (x.atom == y.atom)
        factors.push_back({x.atom, std::min(x.power, y.power)});
  return internMonomial(factors);
}

SizeExpr SizeContext::Impl::scale(SizeExpr e, int64_t coefficient, const SizeMonomial *monomial) {
  if (coefficient == 1 && monomial->degree == 0)
    return e;
  std::vector<SizeTermNode> terms;
  if (coefficient != 0)
    for (const SizeTermNode &t : e.get()->terms) {
      SizeTermNode product;
      if (__builtin_mul_overflow(t.coefficient, coefficient, &product.coefficient) ||
          !(product.monomial = multiply(t.monomial, monomial)))
        return SizeExpr(invalid);
      terms.push_back(product);
    }
  return fromTerms(terms);
}

SizeExpr SizeContext::Impl::divideByTerm(SizeExpr e, SizeTermNode divisor) {
  if (divisor.coefficient == 1 && divisor.monomial->degree == 0)
    return e;
  std::vector<SizeTermNode> terms;
  for (const SizeTermNode &t : e.get()->terms) {
    const SizeMonomial *monomial = divide(t.monomial, divisor.monomial);
    auto coefficient = truncDivInt(t.coefficient, divisor.coefficient);
    if (!monomial || !coefficient || *coefficient * divisor.coefficient != t.coefficient)
      return SizeExpr();
    terms.push_back({*coefficient, monomial});
  }
  return fromTerms(terms);
}

SizeTermNode SizeContext::Impl::commonFactor(SizeExpr a, SizeExpr b) {
  uint64_t coefficient = 0;
  const SizeMonomial *monomial = nullptr;
  for (SizeExpr e : {a, b})
    for (const SizeTermNode &t : e.get()->terms) {
      uint64_t magnitude =
          t.coefficient < 0 ? 0 - static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
      coefficient = std::gcd(coefficient, magnitude);
      monomial = monomial ? gcd(monomial, t.monomial) : t.monomial;
    }
  if (!monomial || coefficient > static_cast<uint64_t>(INT64_MAX))
    return {1, monomial ? monomial : unit};
  return {static_cast<int64_t>(coefficient), monomial};
}

SizeSplit SizeContext::Impl::split(SizeExpr e, SizeExpr divisor) {
  auto divisorTerms = divisor.get()->terms;
  SizeTermNode lead = divisorTerms[0];
  std::vector<SizeTermNode> quotient, remainder;
  if (divisorTerms.size() == 1) {
    bool byConstant = lead.monomial->degree == 0;
    for (const SizeTermNode &t : e.get()->terms) {
      const SizeMonomial *monomial = divide(t.monomial, lead.monomial);
      std::optional<int64_t> coefficient;
      if (monomial && byConstant && t.monomial->degree == 0) {
        coefficient = floorDivInt(t.coefficient, lead.coefficient);
      } else if (monomial) {
        // 12*i over 8 is i and 4*i left: quotient and modulus of one sum keep one dividend. A quotient in the dividend
        // stays whole, for a modulus beside it may join it again.
        coefficient = truncDivInt(t.coefficient, lead.coefficient);
        bool hasCall = !t.monomial->factors.empty() && !t.monomial->factors.back().atom->isSymbol;
        if (coefficient && hasCall && *coefficient * lead.coefficient != t.coefficient)
          coefficient.reset();
      }
      if (!coefficient) {
        remainder.push_back(t);
        continue;
      }
      if (*coefficient != 0)
        quotient.push_back({*coefficient, monomial});
      if (int64_t rest = t.coefficient - *coefficient * lead.coefficient)
        remainder.push_back({rest, t.monomial});
    }
    return {fromTerms(quotient), fromTerms(remainder)};
  }
  // Long division by the leading term. What it leaves is an identity whatever the values, but worth keeping only if it
  // got shorter.
  SizeExpr rest = e;
  for (size_t step = 0; !rest.get()->terms.empty(); ++step) {
    SizeTermNode t = rest.get()->terms[0];
    const SizeMonomial *monomial = divide(t.monomial, lead.monomial);
    std::optional<int64_t> coefficient = monomial ? truncDivInt(t.coefficient, lead.coefficient) : std::nullopt;
    SizeExpr subtrahend;
    if (coefficient && *coefficient * lead.coefficient == t.coefficient) {
      quotient.push_back({*coefficient, monomial});
      subtrahend = scale(divisor, *coefficient, monomial);
    } else {
      remainder.push_back(t);
      subtrahend = fromTerm(t.coefficient, t.monomial);
    }
    rest = owner.sub(rest, subtrahend);
    if (!rest.isValid() || step > maxDivisionSteps)
      return {owner.constant(0), e};
  }
  if (remainder.size() >= e.get()->terms.size())
    return {owner.constant(0), e};
  return {fromUnsortedTerms(quotient), fromUnsortedTerms(remainder)};
}

SizeExpr SizeContext::Impl::exactQuotient(SizeExpr e, SizeExpr divisor) {
  if (!e.isValid() || !divisor.isValid() || divisor.isConstant(0))
    return SizeExpr();
  SizeSplit s = split(e, divisor);
  return s.remainder.isConstant(0) ? s.quotient : SizeExpr();
}
