// The algebra of sizes and indices agrees with brute force over all assignments of small ranges.
#include "SizeAssignments.h"
#include "support/SizeFacts.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

using namespace torch_tile;

namespace {

int64_t floorDivOf(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

/// Random expressions, built twice: through the folding builders and as a plain tree that is evaluated as written.
class RandomExprs {
public:
  struct Tree {
    int op; // 0 constant, 1 symbol, 2.. operations
    int64_t constant;
    std::string name;
    std::vector<Tree> children;
  };

  RandomExprs(SizeContext &context, unsigned seed, std::vector<std::string> names)
      : context(context), random(seed), names(std::move(names)) {}

  Tree tree(int depth) {
    int op = depth == 0 ? pick(0, 1) : pick(0, 9);
    Tree t{op, 0, "", {}};
    if (op == 0) {
      static constexpr int64_t constants[] = {-7, -4, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
      t.constant = constants[pick(0, 11)];
    } else if (op == 1) {
      t.name = names[pick(0, static_cast<int>(names.size()) - 1)];
    } else {
      t.children = {tree(depth - 1), tree(depth - 1)};
    }
    return t;
  }

  SizeExpr build(const Tree &t) {
    if (t.op == 0)
      return context.constant(t.constant);
    if (t.op == 1)
      return context.symbol(t.name);
    SizeExpr a = build(t.children[0]), b = build(t.children[1]);
    switch (t.op) {
    case 2:
      return context.add(a, b);
    case 3:
      return context.sub(a, b);
    case 4:
      return context.mul(a, b);
    case 5:
      return context.floorDiv(a, b);
    case 6:
      return context.mod(a, b);
    case 7:
      return context.call(SizeFn::TruncDiv, {a, b});
    case 8:
      return context.min(a, b);
    default:
      return pick(0, 1) ? context.max(a, b) : context.max(b, a);
    }
  }

  static std::optional<int64_t> evaluate(const Tree &t, const Assignment &assignment) {
    if (t.op == 0)
      return t.constant;
    if (t.op == 1)
      return assignment.find(t.name)->second;
    auto x = evaluate(t.children[0], assignment), y = evaluate(t.children[1], assignment);
    if (!x || !y || (t.op >= 5 && t.op <= 7 && *y == 0))
      return std::nullopt;
    switch (t.op) {
    case 2:
      return *x + *y;
    case 3:
      return *x - *y;
    case 4:
      return *x * *y;
    case 5:
      return floorDivOf(*x, *y);
    case 6:
      return *x - *y * floorDivOf(*x, *y);
    case 7:
      return *x / *y;
    case 8:
      return std::min(*x, *y);
    default:
      return std::max(*x, *y);
    }
  }

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

private:
  SizeContext &context;
  std::mt19937 random;
  std::vector<std::string> names;
};

/// s0 in [-2, 3], s1 in [1, 4], s2 even in [0, 6], i0 < s1, i1 < s1*s2.
void setSmallFacts(SizeFacts &facts) {
  facts.setRange("s0", -2, 3);
  facts.setRange("s1", 1, 4);
  facts.setRange("s2", 0, 6);
  facts.setDivisor("s2", 2);
  facts.setExtent("i0", facts.sizes().symbol("s1"));
  facts.setExtent("i1", facts.sizes().mul(facts.sizes().symbol("s1"), facts.sizes().symbol("s2")));
}

std::vector<Assignment> smallAssignments() {
  std::vector<Assignment> result;
  for (int64_t s0 = -2; s0 <= 3; ++s0)
    for (int64_t s1 = 1; s1 <= 4; ++s1)
      for (int64_t s2 = 0; s2 <= 6; s2 += 2)
        for (int64_t i0 = 0; i0 < s1; ++i0)
          for (int64_t i1 = 0; i1 < s1 * s2; i1 += s1 * s2 > 8 ? 3 : 1)
            result.push_back({{"s0", s0}, {"s1", s1}, {"s2", s2}, {"i0", i0}, {"i1", i1}});
  return result;
}

class SizeExprRandomTest : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SizeExprRandomTest, testing::Range(0u, 8u));

TEST_P(SizeExprRandomTest, EverythingAgreesWithBruteForce) {
  SizeContext context;
  SizeFacts facts(context);
  setSmallFacts(facts);
  std::vector<Assignment> assignments = smallAssignments();
  RandomExprs exprs(context, GetParam(), {"s0", "s1", "s2", "i0", "i1"});
  for (int round = 0; round < 300; ++round) {
    RandomExprs::Tree left = exprs.tree(exprs.pick(1, 4)), right = exprs.tree(exprs.pick(0, 3));
    SizeExpr a = exprs.build(left), b = exprs.build(right);
    if (!a.isValid() || !b.isValid())
      continue;
    EXPECT_EQ(context.parse(a.str()), a) << a.str();
    SizeExpr simple = facts.simplify(a);
    SizeRange range = facts.range(a);
    Proof equal = facts.equal(a, b), lessEqual = facts.lessEqual(a, b), less = facts.less(a, b),
          divides = facts.divides(b, a);
    for (const Assignment &assignment : assignments) {
      // Where the written form divides by zero nothing is promised.
      auto x = RandomExprs::evaluate(left, assignment), y = RandomExprs::evaluate(right, assignment);
      if (!x)
        continue;
      auto context = [&] {
        std::string text = a.str() + " ~ " + simple.str() + " ? " + b.str() + " at";
        for (auto &[name, value] : assignment)
          text += " " + name + "=" + std::to_string(value);
        return text;
      };
      ASSERT_EQ(valueOf(a, assignment), x) << context();
      ASSERT_EQ(valueOf(simple, assignment), x) << context();
      ASSERT_LE(range.min, *x) << context();
      ASSERT_GE(range.max, *x) << context();
      if (!y)
        continue;
      if (equal != Proof::Unknown) {
        ASSERT_EQ(equal == Proof::Yes, *x == *y) << context();
      }
      if (lessEqual != Proof::Unknown) {
        ASSERT_EQ(lessEqual == Proof::Yes, *x <= *y) << context();
      }
      if (less != Proof::Unknown) {
        ASSERT_EQ(less == Proof::Yes, *x < *y) << context();
      }
      if (divides != Proof::Unknown && *y != 0) {
        ASSERT_EQ(divides == Proof::Yes, *x % *y == 0) << context();
      }
    }
  }
}

/// An index map through reshapes: flatten under one shape, take apart under the next.
struct ViewChain {
  SizeContext &context;
  SizeFacts &facts;

  std::vector<SizeExpr> reshape(const std::vector<SizeExpr> &index, const std::vector<SizeExpr> &from,
                                const std::vector<SizeExpr> &to, bool simplify) {
    SizeExpr flat = context.constant(0);
    for (size_t k = 0; k < from.size(); ++k)
      flat = context.add(context.mul(flat, from[k]), index[k]);
    std::vector<SizeExpr> result(to.size());
    for (size_t k = to.size(); k-- > 0;) {
      result[k] = k == 0 ? flat : context.mod(flat, to[k]);
      flat = context.floorDiv(flat, to[k]);
    }
    if (simplify)
      for (SizeExpr &e : result)
        e = facts.simplify(e);
    return result;
  }
};

TEST_P(SizeExprRandomTest, ViewChainsAgreeWithBruteForce) {
  std::mt19937 random(GetParam());
  auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (int round = 0; round < 60; ++round) {
    SizeContext context;
    SizeFacts facts(context);
    facts.setRange("s0", 1, 3);
    facts.setRange("s1", 1, 3);
    // Shapes of one chain group the same primes, in any order.
    std::vector<SizeExpr> primes{context.constant(2), context.constant(2), context.constant(3)};
    if (pick(2))
      primes.push_back(context.symbol("s0"));
    if (pick(2))
      primes.push_back(context.symbol("s1"));
    auto shape = [&] {
      std::vector<SizeExpr> shuffled = primes, result{context.constant(1)};
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      for (SizeExpr p : shuffled) {
        if (pick(2))
          result.push_back(context.constant(1));
        result.back() = context.mul(result.back(), p);
      }
      return result;
    };
    std::vector<SizeExpr> last = shape();
    std::vector<SizeExpr> index;
    for (size_t k = 0; k < last.size(); ++k) {
      std::string name = "i" + std::to_string(k);
      index.push_back(context.symbol(name));
      facts.setExtent(name, last[k]);
    }
    std::vector<SizeExpr> plain = index, simple = index, first = last;
    ViewChain chain{context, facts};
    for (size_t step = 0, steps = 1 + pick(3); step < steps; ++step) {
      std::vector<SizeExpr> next = shape();
      plain = chain.reshape(plain, first, next, false);
      simple = chain.reshape(simple, first, next, true);
      first = next;
    }
    // And back again: the whole chain is the identity.
    std::vector<SizeExpr> back = chain.reshape(simple, first, last, true);
    for (int64_t s0 = 1; s0 <= 3; ++s0)
      for (int64_t s1 = 1; s1 <= 3; ++s1) {
        Assignment assignment{{"s0", s0}, {"s1", s1}};
        int64_t total = 1;
        for (SizeExpr extent : last)
          total *= *valueOf(extent, assignment);
        for (int64_t flat = 0; flat < total; ++flat) {
          int64_t rest = flat;
          for (size_t k = last.size(); k-- > 0;) {
            int64_t extent = *valueOf(last[k], assignment);
            assignment["i" + std::to_string(k)] = rest % extent;
            rest /= extent;
          }
          for (size_t k = 0; k < plain.size(); ++k)
            ASSERT_EQ(valueOf(plain[k], assignment), valueOf(simple[k], assignment))
                << plain[k].str() << " ~ " << simple[k].str();
          for (size_t k = 0; k < back.size(); ++k)
            ASSERT_EQ(valueOf(back[k], assignment), assignment["i" + std::to_string(k)]) << back[k].str();
        }
      }
  }
}

} // namespace
