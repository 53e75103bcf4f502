#include "contract/net.h"

#include <utility>

namespace lockstep::contract {
namespace {

thread_local const std::vector<RowShard>* truth_shards = nullptr;

constexpr double kNormEps = 0.1;  // so that normalizing two rows does not magnify rounding
constexpr double kMomentum = 0.3;

// Applies a recurrent layer to h [rows, kHidden], as four steps of two features.
struct Recurrent : nn::Module<Recurrent> {
  nn::LSTM lstm;
  bool steps_first;
  Recurrent(bool steps_in_front, double dropout)
      : lstm(2, 2, {.num_layers = 2, .batch_first = !steps_in_front, .dropout = dropout}),
        steps_first(steps_in_front) {}
  auto members() { return nn::members("lstm", lstm, "steps_first", steps_first); }
  Tensor forward(const Tensor& h) {
    const Tensor x = h.reshape({h.size(0), 4, 2});
    const Tensor y = steps_first ? lstm(x.transpose(0, 1)).output.transpose(0, 1) : lstm(x).output;
    return y.reshape({h.size(0), kHidden});
  }
};

struct Attention : nn::Module<Attention> {
  nn::MultiheadAttention attention;
  explicit Attention(double dropout) : attention(2, 2, {.dropout = dropout, .batch_first = true}) {}
  auto members() { return nn::members("attention", attention); }
  Tensor forward(const Tensor& h) {
    const Tensor x = h.reshape({h.size(0), 4, 2});
    return attention(x, x, x).output.reshape({h.size(0), kHidden});
  }
};

struct Encoder : nn::Module<Encoder> {
  nn::TransformerEncoderLayer layer;
  bool steps_first;
  Encoder(bool steps_in_front, double dropout)
      : layer(4, 2,
              {.dim_feedforward = 6,
               .dropout = dropout,
               .activation = [](const Tensor& x) { return tanh(x); },
               .layer_norm_eps = kNormEps,
               .batch_first = !steps_in_front}),
        steps_first(steps_in_front) {}
  auto members() { return nn::members("layer", layer, "steps_first", steps_first); }
  Tensor forward(const Tensor& h) {
    const Tensor x = h.reshape({h.size(0), 2, 4});
    const Tensor y = steps_first ? layer(x.transpose(0, 1)).transpose(0, 1) : layer(x);
    return y.reshape({h.size(0), kHidden});
  }
};

struct Images : nn::Module<Images> {
  nn::Conv2d conv{2, 2, 3, {.padding = 1}};
  auto members() { return nn::members("conv", conv); }
  Tensor forward(const Tensor& h) { return tanh(conv(h.reshape({h.size(0), 2, 2, 2}))).reshape({h.size(0), kHidden}); }
};

// Batch norm by its definition, over each replica's rows (or over all), with the library's names.
struct TruthNorm : nn::Module<TruthNorm> {
  nn::Parameter weight, bias;
  nn::Buffer running_mean, running_var, num_batches_tracked;
  bool of_all;
  TruthNorm(std::int64_t channels, bool synchronized)
      : weight(ones({channels})),
        bias(zeros({channels})),
        running_mean(zeros({channels})),
        running_var(ones({channels})),
        num_batches_tracked(zeros({}, kInt64)),
        of_all(synchronized) {}
  auto members() {
    return nn::members("weight", weight, "bias", bias, "running_mean", running_mean, "running_var", running_var,
                       "num_batches_tracked", num_batches_tracked);
  }
  Tensor forward(const Tensor& given) {  // [rows, channels, length]
    const Tensor x = is_floating(given.dtype()) && given.dtype() != kFloat64 ? given.to(kFloat32) : given;
    const std::int64_t channels = x.size(1), length = x.size(2);
    const auto per_channel = [&](const Tensor& t) { return t.to(x.dtype()).reshape({1, channels, 1}); };
    const auto normalized = [&](const Tensor& part, const Tensor& mean, const Tensor& variance) {
      return (part - mean) / sqrt(variance + kNormEps) * per_channel(weight) + per_channel(bias);
    };
    if (!is_training()) return normalized(x, per_channel(running_mean), per_channel(running_var)).to(given.dtype());
    std::vector<RowShard> shards = TruthPass::shards();
    if (of_all) shards = {{0, x.size(0)}};
    std::vector<Tensor> parts, means, variances;
    for (const auto& [first, count] : shards) {
      if (count == 0) continue;
      const Tensor part = x.narrow(0, first, count);
      const Tensor average = mean(part, {0, 2}, true);
      const Tensor variance = mean(square(part - average), {0, 2}, true);
      parts.push_back(normalized(part, average, variance));
      const double elements = double(count * length);
      means.push_back(average.detach().reshape({channels}));
      variances.push_back(variance.detach().reshape({channels}) * (elements / (elements - 1)));
    }
    const NoGrad guard;
    const auto follow = [&](nn::Buffer& buffer, const std::vector<Tensor>& of_replicas) {
      const Tensor now = mean(stack(of_replicas), {0}).to(buffer.dtype());
      buffer.copy_(buffer * (1 - kMomentum) + now * kMomentum);
    };
    follow(running_mean, means);
    follow(running_var, variances);
    num_batches_tracked.add_(1);
    const GradMode recorded(true);
    return cat(parts).to(given.dtype());
  }
};

const nn::BatchNormLayerOptions kNormOptions = {.eps = kNormEps, .momentum = kMomentum};

struct LocalNorm : nn::Module<LocalNorm> {
  nn::BatchNorm1d norm;
  explicit LocalNorm(std::int64_t channels) : norm(channels, kNormOptions) {}
  auto members() { return nn::members("norm", norm); }
  Tensor forward(const Tensor& x) { return norm(x); }
};
struct GlobalNorm : nn::Module<GlobalNorm> {
  nn::SyncBatchNorm norm;
  explicit GlobalNorm(std::int64_t channels) : norm(channels, kNormOptions) {}
  auto members() { return nn::members("norm", norm); }
  Tensor forward(const Tensor& x) { return norm(x); }
};
struct NormByDefinition : nn::Module<NormByDefinition> {
  TruthNorm norm;
  NormByDefinition(std::int64_t channels, bool of_all) : norm(channels, of_all) {}
  auto members() { return nn::members("norm", norm); }
  Tensor forward(const Tensor& x) { return norm(x); }
};

nn::AnyModule norm_of(std::int64_t channels, bool synchronized, bool is_truth) {
  if (is_truth) return NormByDefinition(channels, synchronized);
  if (synchronized) return GlobalNorm(channels);
  return LocalNorm(channels);
}

// Normalizes h as [rows, channels, rest].
struct Normalized : nn::Module<Normalized> {
  nn::Linear first;
  nn::AnyModule norm;
  std::int64_t channels;
  Normalized(std::int64_t of_channels, bool synchronized, bool is_truth)
      : first(kHidden, kHidden), norm(norm_of(of_channels, synchronized, is_truth)), channels(of_channels) {}
  auto members() { return nn::members("first", first, "norm", norm, "channels", channels); }
  Tensor forward(const Tensor& h) {
    const Tensor x = first(h).reshape({h.size(0), channels, kHidden / channels});
    return tanh(norm(x)).reshape({h.size(0), kHidden});
  }
};

// Two norms that do not depend on each other.
struct ParallelNorms : nn::Module<ParallelNorms> {
  Normalized left, right;
  ParallelNorms(std::int64_t left_channels, std::int64_t right_channels, bool is_truth)
      : left(left_channels, true, is_truth), right(right_channels, true, is_truth) {}
  auto members() { return nn::members("left", left, "right", right); }
  Tensor forward(const Tensor& h) { return left(h) + right(h); }
};

// A user's buffer, which each training pass changes.
struct TrackedBuffer : nn::Module<TrackedBuffer> {
  nn::Buffer value;
  std::string_view kind;
  bool is_truth;
  TrackedBuffer(std::string_view sync, bool in_truth)
      : value(ones({kHidden}), sync == "mean"    ? nn::BufferSync::mean
                               : sync == "equal" ? nn::BufferSync::equal
                                                 : nn::BufferSync::primary),
        kind(sync),
        is_truth(in_truth) {}
  auto members() { return nn::members("value", value); }
  Tensor forward(const Tensor& h) {
    const Tensor y = h * (value * 0.1 + 1.);
    if (!is_training()) return y;
    const NoGrad guard;
    const auto next = [&](const Tensor& rows) {
      return value * 0.8 + mean(rows.detach().to(value.dtype()), {0}) * 0.2;
    };
    if (kind == "equal") {
      value.mul_(0.9).add_(0.05);
    } else if (!is_truth) {
      if (h.size(0) > 0) value.copy_(next(h));
    } else {
      std::vector<Tensor> of_replicas;
      for (const auto& [first, count] : TruthPass::shards())
        if (count > 0) of_replicas.push_back(next(h.narrow(0, first, count)));
      if (kind == "mean")
        value.copy_(mean(stack(of_replicas), {0}));
      else if (TruthPass::shards()[0].count > 0)
        value.copy_(of_replicas[0]);
    }
    return y;
  }
};

nn::AnyModule part_of(const Case& given) {
  const double dropout = given.is("dropout", "inner") ? 0.3 : 0;
  const std::string_view parts = given["parts"];
  if (parts == "conv") return Images();
  if (parts == "layer_norm") return nn::LayerNorm(kHidden, {.eps = kNormEps});
  if (parts == "lstm") return Recurrent(false, dropout);
  if (parts == "lstm_steps_first") return Recurrent(true, dropout);
  if (parts == "attention") return Attention(dropout);
  if (parts == "encoder") return Encoder(false, dropout);
  if (parts == "encoder_steps_first") return Encoder(true, dropout);
  return nn::Linear(kHidden, kHidden);
}

bool takes_branch(const Tensor& x) { return x.size(0) > 0 && x[0][0].item<double>() > 0; }

}  // namespace

TruthPass::TruthPass(std::vector<RowShard> shards) : shards_(std::move(shards)), outer_(truth_shards) {
  truth_shards = &shards_;
}
TruthPass::~TruthPass() { truth_shards = outer_; }
const std::vector<RowShard>& TruthPass::shards() { return *truth_shards; }

Net::Net(const Case& given, bool is_truth)
    : in(kFeatures, kHidden),
      mid(kHidden, kHidden),
      out(kHidden, kFeatures),
      drop(given.is("dropout", "rows") ? 0.3 : 0),
      case_(given),
      is_truth_(is_truth) {
  if (given.is("parts", "embedding")) embedding.emplace(kHidden, kHidden);
  body.push_back(part_of(given));
  if (given.is("buffer", "trained")) {
    scale.emplace(ones({kHidden}));
  } else if (!given.is("buffer", "none")) {
    buffers.emplace(TrackedBuffer(given["buffer"], is_truth));
  }
  const std::string_view norms = given["norm"];
  if (norms == "sync_parallel") {
    norm.emplace(ParallelNorms(2, 2, is_truth));
  } else if (norms == "sync_sizes") {
    norm.emplace(ParallelNorms(2, 4, is_truth));
  } else if (norms != "none") {
    norm.emplace(Normalized(2, norms == "sync", is_truth));
    if (norms == "batch_eval") norm->eval();
  }
  if (!given.is("branch", "none")) {
    if (given.is("norm", "batch"))
      extra.emplace(Normalized(4, false, is_truth));
    else
      extra.emplace(nn::Linear(kHidden, kHidden));
  }
}

Tensor Net::branched(const Tensor& h, const Tensor& x, int step) {
  const std::string_view branch = case_["branch"];
  if (branch == "by_step") return step % 2 == 0 ? h + (*extra)(h)*0.5 : h;
  if (branch != "by_replica") return h;
  if (!is_truth_) return takes_branch(x) ? h + (*extra)(h)*0.5 : h;
  // The rows of the replicas that take the branch, as the shards of a smaller batch.
  std::vector<Tensor> in_branch;
  std::vector<RowShard> shards;
  std::int64_t taken = 0;
  for (const auto& [first, count] : TruthPass::shards()) {
    if (count == 0 || !takes_branch(x.narrow(0, first, count))) continue;
    in_branch.push_back(h.narrow(0, first, count));
    shards.push_back({taken, count});
    taken += count;
  }
  if (in_branch.empty()) return h;
  Tensor through;
  {
    const TruthPass pass(shards);
    through = (*extra)(cat(in_branch));
  }
  std::vector<Tensor> all;
  taken = 0;
  for (const auto& [first, count] : TruthPass::shards()) {
    if (count == 0) continue;
    const Tensor rows = h.narrow(0, first, count);
    if (!takes_branch(x.narrow(0, first, count))) {
      all.push_back(rows);
    } else {
      all.push_back(rows + through.narrow(0, taken, count) * 0.5);
      taken += count;
    }
  }
  return cat(all);
}

namespace {

// Doubles it through a view, in place; the truth concatenates parts.
Tensor with_first_column_doubled(const Tensor& h, bool is_truth) {
  if (is_truth) return cat({h.narrow(1, 0, 1) * 2, h.narrow(1, 1, h.size(1) - 1)}, 1);
  const Tensor copy = h * 1;
  copy.narrow(1, 0, 1).mul_(2.);
  return copy;
}

}  // namespace

Output Net::forward(const Tensor& given_x, const Tensor& given_y, int step) {
  const bool columns = case_.is("scatter_dim", "1");
  const Tensor x = columns ? given_x.t() : given_x;
  Tensor h = in(x);
  if (embedding) h = h + (*embedding)(clamp((x.detach() + 1.) * 4., 0, double(kHidden - 1)).to(kInt64)).sum({1});
  h = tanh(h);
  h = columns ? drop(h.t().contiguous()).t() : drop(h);
  h = tanh(mid(h));
  if (case_.is("tie", "on")) h = tanh(mid(h));
  const auto through_body = [this](Tensor t) {
    for (nn::AnyModule& part : body) t = tanh(part(t));
    return t;
  };
  const auto through_state = [this](Tensor t) {
    if (buffers) t = (*buffers)(t);
    if (norm) t = (*norm)(t);
    return t;
  };
  const std::string_view checkpoints = is_truth_ ? "off" : case_["checkpoint"];
  if (checkpoints == "all") {
    h = checkpoint([=](const Tensor& t) { return through_state(through_body(t)); }, h);
  } else {
    h = checkpoints == "body" ? checkpoint(through_body, h) : through_body(h);
    h = through_state(h);
  }
  if (scale) h = h * *scale;
  h = branched(h, x, step);
  if (case_.is("writes", "view")) h = with_first_column_doubled(h, is_truth_);
  const Tensor rows = out(h);
  Output output;
  const std::string_view where = case_["where"];
  const bool sums = case_.is("reduction", "sum");  // bits are the same if outputs are contiguous
  if (where == "outside" || where == "pair" || is_truth_)
    output.rows = !columns ? rows : sums ? rows.t().contiguous() : rows.t();
  if (where == "pair") output.value = value_of_rows(case_, rows);
  if (where == "inside_mean" || where == "inside_vector") {
    const bool classes = !is_floating(given_y.dtype());
    const Tensor y = !columns ? given_y : classes ? given_y[0] : given_y.t();
    if (is_weighted(case_))
      output.mean = mean_cross_entropy(rows, y);
    else
      output.value = loss_of_rows(case_, rows, y);
  }
  return output;
}

bool is_weighted(const Case& given) { return given.is("loss", "padding") && given.is("reduction", "mean"); }

Tensor loss_of_rows(const Case& given, const Tensor& rows, const Tensor& y) {
  const bool sums = given.is("reduction", "sum");
  if (given.is("loss", "mse")) {
    const Tensor squares = square(rows - y);
    return sums ? sum(squares) / double(kFeatures) : mean(squares);
  }
  return cross_entropy(rows, y, {.reduction = sums ? Reduction::sum : Reduction::mean});
}

Tensor value_of_rows(const Case& given, const Tensor& rows) {
  return given.is("reduction", "sum") ? sum(square(rows)) : mean(square(rows));
}

}  // namespace lockstep::contract
