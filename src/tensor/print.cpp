// Prints as PyTorch does (torch/_tensor_str.py, default options): copies the printed elements to the host, chooses one
// format for all numbers, and lays out the rows in 80 columns.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include <lockstep/tensor/tensor.h>

#include "core/digits.h"
#include "core/text.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

constexpr int kPrecision = 4;
constexpr std::int64_t kThreshold = 1000;  // tensors of more elements are summarized
constexpr std::int64_t kEdge = 3;          // items at each end of a summarized dimension
constexpr std::size_t kLineWidth = 80;
constexpr std::size_t kIndent = 7;  // columns before later lines: the width of "tensor("

/// The elements to print, on the CPU. In a summarized tensor, only the ends of a dimension of more than 2 * kEdge are
/// kept.
struct Excerpt {
  Tensor values;
  bool cut[Shape::kMaxRank] = {};
};

Tensor part(const Tensor& tensor, int dim, std::int64_t start, std::int64_t length) {
  const TensorImpl& impl = *tensor.impl();
  Shape sizes = impl.sizes;
  sizes[dim] = length;
  return make_view(tensor, sizes, impl.strides, impl.offset + start * impl.strides[dim]);
}

Excerpt excerpt(const Tensor& tensor) {
  const Shape& sizes = tensor.sizes();
  Excerpt result;
  result.values = tensor;
  if (tensor.numel() > kThreshold) {
    std::vector<int> dims(std::size_t(sizes.rank()));  // sorted, the longest first, so that little is copied
    std::iota(dims.begin(), dims.end(), 0);
    std::stable_sort(dims.begin(), dims.end(), [&](int a, int b) { return sizes[a] > sizes[b]; });
    for (const int dim : dims) {
      if (sizes[dim] <= 2 * kEdge) break;
      Shape kept = result.values.sizes();
      kept[dim] = 2 * kEdge;
      const Tensor ends = make_tensor(device_state(Device()), kept, tensor.dtype());
      copy_values(part(ends, dim, 0, kEdge), part(result.values, dim, 0, kEdge));
      copy_values(part(ends, dim, kEdge, kEdge), part(result.values, dim, sizes[dim] - kEdge, kEdge));
      result.values = ends;
      result.cut[dim] = true;
    }
  }
  const DType exact = is_floating(tensor.dtype()) ? kFloat64 : tensor.dtype() == kBool ? kBool : kInt64;
  result.values = copied(result.values, device_state(Device()), exact);
  return result;
}

std::string written(double value, std::chars_format style, int precision) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return digits_of(value, style, precision);
}

/// The format of all numbers of a tensor: whole ("2."), fixed ("2.0000") or scientific ("2.0000e+00").
class FloatFormat {
 public:
  explicit FloatFormat(const std::vector<double>& values) {
    std::vector<double> shown;  // zeros, infinities and NaNs do not affect the format
    std::copy_if(values.begin(), values.end(), std::back_inserter(shown),
                 [](double value) { return std::isfinite(value) && value != 0; });
    if (shown.empty()) return;
    const auto smaller = [](double a, double b) { return std::abs(a) < std::abs(b); };
    const double least = std::abs(*std::min_element(shown.begin(), shown.end(), smaller));
    const double most = std::abs(*std::max_element(shown.begin(), shown.end(), smaller));
    whole_ = std::all_of(shown.begin(), shown.end(), [](double value) { return value == std::ceil(value); });
    scientific_ = most / least > 1000 || most > 1e8 || (!whole_ && least < 1e-4);
    for (const double value : shown) width_ = std::max(width_, (*this)(value).size());
  }

  std::string operator()(double value) const {
    if (scientific_) return written(value, std::chars_format::scientific, kPrecision);
    if (!whole_) return written(value, std::chars_format::fixed, kPrecision);
    return written(value, std::chars_format::fixed, 0) + (std::isfinite(value) ? "." : "");
  }
  std::size_t width() const { return width_; }

 private:
  bool whole_ = true;
  bool scientific_ = false;
  std::size_t width_ = 1;
};

/// The elements' texts, row-major, padded to one width.
struct Texts {
  std::vector<std::string> each;
  std::size_t width = 1;
};

Texts texts_of(const Tensor& values) {
  Texts texts;
  if (values.dtype() == kFloat64) {
    const std::vector<double> numbers = values.to_vector<double>();
    const FloatFormat format(numbers);
    for (const double number : numbers) texts.each.push_back(format(number));
    texts.width = format.width();  // the texts of zeros and infinities may be wider
  } else {
    if (values.dtype() == kBool)
      for (const bool value : values.to_vector<bool>()) texts.each.push_back(value ? "True" : "False");
    else
      for (const std::int64_t value : values.to_vector<std::int64_t>()) texts.each.push_back(std::to_string(value));
    for (const std::string& text : texts.each) texts.width = std::max(texts.width, text.size());
  }
  for (std::string& text : texts.each)
    if (text.size() < texts.width) text.insert(0, texts.width - text.size(), ' ');
  return texts;
}

class Layout {
 public:
  explicit Layout(const Excerpt& excerpt) : excerpt_(excerpt), texts_(texts_of(excerpt.values)) {}

  std::string text() { return block(0, kIndent); }

 private:
  std::string block(int dim, std::size_t indent) {
    const Shape& sizes = excerpt_.values.sizes();
    if (dim == sizes.rank()) return texts_.each[next_++];
    const bool row = dim + 1 == sizes.rank();
    std::vector<std::string> items;
    for (std::int64_t i = 0; i < sizes[dim]; ++i) {
      if (excerpt_.cut[dim] && i == kEdge) items.push_back(row ? " ..." : "...");
      items.push_back(block(dim + 1, indent + 1));
    }
    const std::string margin = std::string(indent + 1, ' ');
    if (!row)
      return "[" + joined(items, 1, "," + std::string(std::size_t(sizes.rank() - dim - 1), '\n') + margin) + "]";
    const std::size_t room = kLineWidth > indent ? kLineWidth - indent : 0;
    return "[" + joined(items, std::max<std::size_t>(1, room / (texts_.width + 2)), ",\n" + margin) + "]";
  }

  /// Items with ", " between them and `separator` after every `group` of them.
  static std::string joined(const std::vector<std::string>& items, std::size_t group, const std::string& separator) {
    std::string result;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) result += i % group == 0 ? separator : ", ";
      result += items[i];
    }
    return result;
  }

  const Excerpt& excerpt_;
  Texts texts_;
  std::size_t next_ = 0;
};

std::vector<std::string> suffixes_of(const Tensor& tensor) {
  std::vector<std::string> suffixes;
  const DType dtype = tensor.dtype();
  const bool empty = tensor.numel() == 0;
  if (!tensor.device().is_cpu()) suffixes.push_back(text("device='", tensor.device(), "'"));
  if (empty && tensor.dim() != 1) {
    std::string sizes = text(tensor.sizes());
    sizes.front() = '(';
    sizes.back() = ')';
    suffixes.push_back("size=" + sizes);
  }
  const bool told_by_values = !empty && (dtype == kInt64 || dtype == kBool);
  if (dtype != kFloat32 && !told_by_values) suffixes.push_back(text("dtype=", dtype));
  if (!tensor.grad_fn().empty())
    suffixes.push_back(text("grad_fn=<", tensor.grad_fn(), ">"));
  else if (tensor.requires_grad())
    suffixes.push_back("requires_grad=True");
  return suffixes;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "tensor(<undefined>)";
  std::string result = "tensor(";
  if (tensor.numel() == 0) {
    result += "[]";
  } else {
    const Excerpt shown = excerpt(tensor);
    result += Layout(shown).text();
  }
  std::size_t line = result.size() - (result.rfind('\n') + 1) + 2;  // as PyTorch counts it
  for (const std::string& suffix : suffixes_of(tensor)) {
    if (line + suffix.size() + 2 > kLineWidth) {
      result += ",\n" + std::string(kIndent, ' ') + suffix;
      line = kIndent + suffix.size();
    } else {
      result += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  return out << result + ")";
}

}  // namespace lockstep
