// einsum: letters become labels of dimensions. Pairs of operands are permuted into matrix products.
#include <lockstep/ops/einsum.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>

#include "core/text.h"

namespace lockstep {
namespace {

using Labels = std::vector<int>;  // letters; an ellipsis has labels below 0, the last one -1

struct Factor {
  Tensor x;
  Labels labels;  // one for each dimension of x
};

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
int place_of(const Labels& labels, int label) {
  return int(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

[[noreturn]] void refuse(std::string_view equation, const std::string& why) {
  throw InvalidArgument(text("[einsum] expected an equation such as \"ij,jk->ik\", got \"", equation, "\": ", why));
}

struct Term {
  Labels letters;
  int ellipsis = -1;  // the index of the letter after the ellipsis; -1: the term has no ellipsis
};

Term parse_term(std::string_view equation, std::string_view term) {
  Term parsed;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term.substr(i, 3) == "...") {
      if (parsed.ellipsis >= 0) refuse(equation, "two ellipses in one operand");
      parsed.ellipsis = int(parsed.letters.size());
      i += 2;
    } else if ((term[i] >= 'a' && term[i] <= 'z') || (term[i] >= 'A' && term[i] <= 'Z')) {
      parsed.letters.push_back(term[i]);
    } else {
      refuse(equation, text("'", term[i], "' is no letter"));
    }
  }
  return parsed;
}

// The labels of all dimensions. The ellipsis stands for `dots` dimensions.
Labels labels_of(const Term& term, int dots) {
  Labels labels = term.letters;
  for (int i = 1; i <= dots; ++i) labels.insert(labels.begin() + term.ellipsis, -i);
  return labels;
}

// Takes the diagonal of dimensions with the same label.
Factor without_repeats(std::string_view equation, Factor factor) {
  for (std::size_t i = 0; i < factor.labels.size(); ++i)
    for (std::size_t j = factor.labels.size() - 1; j > i; --j) {
      if (factor.labels[j] != factor.labels[i]) continue;
      const std::int64_t size = factor.x.size(std::int64_t(i));
      if (factor.x.size(std::int64_t(j)) != size)
        throw ShapeError(text("[einsum] expected equal sizes for the letter '", char(factor.labels[i]), "' in \"",
                              equation, "\", got ", factor.x.sizes()));
      Shape order, sizes;
      for (int d = 0; d < factor.x.dim(); ++d)
        if (d != int(i) && d != int(j)) order.push_back(d);
      for (const std::int64_t d : order) sizes.push_back(factor.x.size(d));
      order.push_back(std::int64_t(i));
      order.push_back(std::int64_t(j));
      sizes.push_back(size * size);
      const int label = factor.labels[i];
      factor.x = factor.x.permute(order).reshape(sizes).slice(-1, 0, size * size, size + 1);
      factor.labels.erase(factor.labels.begin() + std::int64_t(j));
      factor.labels.erase(factor.labels.begin() + std::int64_t(i));
      factor.labels.push_back(label);
      return without_repeats(equation, factor);
    }
  return factor;
}

// Sums over the labels that are not in `kept`.
Factor summed(const Factor& factor, const Labels& kept) {
  Factor left;
  Shape dims;
  for (int d = 0; d < factor.x.dim(); ++d)
    if (has(kept, factor.labels[std::size_t(d)]))
      left.labels.push_back(factor.labels[std::size_t(d)]);
    else
      dims.push_back(d);
  left.x = dims.empty() ? factor.x : sum(factor.x, dims);
  return left;
}

// Drops dimensions of size 1 whose label has another size in `other`: they broadcast.
Factor without_ones(Factor factor, const Factor& other) {
  for (int d = factor.x.dim(); d-- > 0;) {
    const int label = factor.labels[std::size_t(d)];
    if (factor.x.size(d) != 1 || !has(other.labels, label) || other.x.size(place_of(other.labels, label)) == 1)
      continue;
    factor.x = factor.x.select(d, 0);
    factor.labels.erase(factor.labels.begin() + d);
  }
  return factor;
}

// Permutes the dimensions into the order of the groups of labels, and joins each group to one dimension.
Tensor grouped(const Factor& factor, std::initializer_list<const Labels*> groups) {
  Shape order, sizes;
  for (const Labels* group : groups) {
    std::int64_t size = 1;
    for (const int label : *group) {
      order.push_back(place_of(factor.labels, label));
      size *= factor.x.size(order.back());
    }
    sizes.push_back(size);
  }
  return factor.x.permute(order).reshape(sizes);
}

Labels joined(const Labels& a, const Labels& b) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// The product of two factors, with the labels in `kept`.
Factor product_of(const Factor& first, const Factor& second, const Labels& kept) {
  Factor a = without_ones(first, second), b = without_ones(second, first);
  a = summed(a, joined(kept, b.labels));
  b = summed(b, joined(kept, a.labels));
  Labels batch, rows, columns, inner;
  for (const int label : a.labels) (!has(b.labels, label) ? rows : has(kept, label) ? batch : inner).push_back(label);
  for (const int label : b.labels)
    if (!has(a.labels, label)) columns.push_back(label);
  Factor out;
  out.labels = joined(joined(batch, rows), columns);
  Shape sizes;
  for (const int label : out.labels) {
    const Factor& from = has(a.labels, label) ? a : b;
    sizes.push_back(from.x.size(place_of(from.labels, label)));
  }
  const Tensor left = grouped(a, {&batch, &rows, &inner}), right = grouped(b, {&batch, &inner, &columns});
  out.x = (inner.empty() ? left * right : batch.empty() ? mm(left[0], right[0]) : bmm(left, right)).reshape(sizes);
  return out;
}

void check_sizes(std::string_view equation, const std::vector<Factor>& factors) {
  std::map<int, std::int64_t> sizes;
  for (const Factor& factor : factors)
    for (int d = 0; d < factor.x.dim(); ++d) {
      std::int64_t& size = sizes.emplace(factor.labels[std::size_t(d)], 1).first->second;
      if (size != 1 && factor.x.size(d) != 1 && size != factor.x.size(d))
        throw ShapeError(text("[einsum] expected sizes that agree in \"", equation, "\", got ", size, " and ",
                              factor.x.size(d), " for one of its dimensions"));
      if (size == 1) size = factor.x.size(d);
    }
}

std::vector<std::string_view> split_at_commas(std::string_view terms) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = terms.find(',');
    parts.push_back(terms.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    terms.remove_prefix(comma + 1);
  }
}

// The result's labels if the equation has no "->": the ellipsis, then the letters that occur once.
Labels implied_result(const std::vector<Term>& terms, int dots) {
  std::map<int, int> uses;
  for (const Term& term : terms)
    for (const int letter : term.letters) ++uses[letter];
  Labels result;
  for (int i = dots; i > 0; --i) result.push_back(-i);
  for (const auto& [letter, count] : uses)
    if (count == 1) result.push_back(letter);
  return result;
}

void check_result(std::string_view equation, const Labels& result, const std::vector<Factor>& factors) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (place_of(result, result[i]) != int(i)) refuse(equation, text("the result has '", char(result[i]), "' twice"));
    const bool known = std::any_of(factors.begin(), factors.end(),
                                   [&](const Factor& factor) { return has(factor.labels, result[i]); });
    if (!known) refuse(equation, text("no operand has the result's '", char(result[i]), "'"));
  }
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands) {
  const std::size_t arrow = equation.find("->");
  std::vector<Term> terms;
  for (const std::string_view part : split_at_commas(equation.substr(0, arrow)))
    terms.push_back(parse_term(equation, part));
  if (terms.size() != operands.size())
    throw InvalidArgument(
        text("[einsum] expected ", terms.size(), " operands for \"", equation, "\", got ", operands.size()));
  std::vector<Factor> factors;
  int most_dots = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const int dots = operands[i].dim() - int(terms[i].letters.size());
    if (dots < 0 || (dots > 0 && terms[i].ellipsis < 0))
      throw ShapeError(text("[einsum] expected operand ", i, " of \"", equation, "\" to have ", terms[i].letters.size(),
                            " dimensions, got ", operands[i].sizes()));
    most_dots = std::max(most_dots, terms[i].ellipsis < 0 ? 0 : dots);
    factors.push_back(without_repeats(equation, {operands[i], labels_of(terms[i], dots)}));
  }
  check_sizes(equation, factors);
  Labels result = implied_result(terms, most_dots);
  if (arrow != std::string_view::npos) {
    const Term term = parse_term(equation, equation.substr(arrow + 2));
    result = labels_of(term, term.ellipsis < 0 ? 0 : most_dots);
  }
  check_result(equation, result, factors);
  Factor product = factors[0];
  for (std::size_t i = 1; i < factors.size(); ++i) {
    Labels kept = result;
    for (std::size_t later = i + 1; later < factors.size(); ++later) kept = joined(kept, factors[later].labels);
    product = product_of(product, factors[i], kept);
  }
  product = summed(product, result);
  Shape order;
  for (const int label : result) order.push_back(place_of(product.labels, label));
  return product.x.permute(order);
}

}  // namespace lockstep
