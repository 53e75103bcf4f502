// The rules of docs/architecture.md on which files may include which, as functions of file names and contents. Does not
// read the disk, so that the rules themselves can be tested.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace layering {

/// Contents of source files by path from the repository's root.
using Tree = std::map<std::string, std::string>;

struct Layer {
  std::string_view name;
  int height;
};

// A layer includes itself and lower ones; layers of one height do not include each other.
inline constexpr std::array kLayers{
    Layer{"core", 0},   Layer{"distributed", 1}, Layer{"runtime", 2}, Layer{"tensor", 3}, Layer{"autograd", 4},
    Layer{"ops", 5},    Layer{"nn", 6},          Layer{"optim", 6},   Layer{"io", 6},     Layer{"data", 7},
    Layer{"report", 7}, Layer{"parallel", 8},    Layer{"train", 9},   Layer{"extend", 9},
};

// Folders that belong to the layer of another one.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRooms{
    {{"cpu", "runtime"}, {"backends", "runtime"}, {"kernels", "tensor"}}};

// The umbrella header stands above all layers: programs include it, layers do not.
inline constexpr Layer kUmbrella{"lockstep.h", 10};

// Backends may use each other only through the interface in src/runtime.
inline constexpr std::array<std::string_view, 3> kBackends{"src/backends/cpu/", "src/backends/sim/",
                                                           "src/backends/cuda/"};
inline constexpr std::string_view kHost = "src/cpu/";  // below the backends that compute on the host

// Prefixes of other libraries' headers, and a folder that may include them. One line per pair.
struct Vendor {
  std::string_view header;
  std::string_view owner;
};
inline constexpr std::array kVendors{
    Vendor{"dnnl", kHost},
    Vendor{"oneapi/dnnl", kHost},
    Vendor{"tbb/", kHost},
    Vendor{"tbb/", "src/data/"},
    Vendor{"oneapi/tbb", kHost},
    Vendor{"oneapi/tbb", "src/data/"},
    Vendor{"cuda", "src/backends/cuda/"},
    Vendor{"cuda", "include/lockstep/kernels/cuda/"},
    Vendor{"cublas", "src/backends/cuda/"},
    Vendor{"cudnn", "src/backends/cuda/"},
    Vendor{"nccl", "src/backends/cuda/"},
    Vendor{"nvml", "src/backends/cuda/"},
    Vendor{"nvtx", "src/backends/cuda/"},
    Vendor{"cub/", "src/backends/cuda/"},
    Vendor{"mpi", "src/distributed/mpi/"},
    Vendor{"nlohmann/", "tests/"},
    Vendor{"fmt/", "src/core/"},
    Vendor{"xxh", "src/io/"},
    Vendor{"png", "src/data/images/"},
    Vendor{"jpeglib", "src/data/images/"},
    Vendor{"jerror", "src/data/images/"},
};

struct Include {
  int line;
  std::string target;
};

inline std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> includes;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto skip_blanks = [&line](std::size_t from) {
      return std::min(line.find_first_not_of(" \t", from), line.size());
    };
    std::size_t at = skip_blanks(0);
    if (at == line.size() || line[at] != '#') continue;
    at = skip_blanks(at + 1);
    if (line.compare(at, 7, "include") != 0) continue;
    at = skip_blanks(at + 7);
    if (at == line.size() || (line[at] != '<' && line[at] != '"')) continue;
    const std::size_t end = line.find(line[at] == '<' ? '>' : '"', at + 1);
    if (end != std::string::npos) includes.push_back({number, line.substr(at + 1, end - at - 1)});
  }
  return includes;
}

/// The file of this repository that `target` names when `includer` includes it; nullopt if there is none.
inline std::optional<std::string> resolve(const Tree& tree, const std::string& includer, const std::string& target) {
  const std::filesystem::path beside = std::filesystem::path(includer).parent_path() / target;
  for (const std::filesystem::path& path :
       {beside, "include" / std::filesystem::path(target), "src" / std::filesystem::path(target),
        "tests" / std::filesystem::path(target)}) {
    std::string candidate = path.lexically_normal().generic_string();
    if (tree.contains(candidate)) return candidate;
  }
  return std::nullopt;
}

/// The layer of a file under include/lockstep, src or tests; nullopt for other files and unknown folders.
inline std::optional<Layer> layer_of(std::string_view path) {
  if (path == "include/lockstep/lockstep.h") return kUmbrella;
  if (path.starts_with("tests/autograd/")) return layer_of("src/ops/");  // without operations no graph is recorded
  // Tests of optimizers and files use modules, so their layer is between nn and parallel.
  for (const std::string_view folder : {"optim", "io"})
    if (path.starts_with("tests/" + std::string(folder) + "/")) return Layer{folder, 7};
  for (std::string_view top : {"include/lockstep/", "src/", "tests/"}) {
    if (!path.starts_with(top)) continue;
    std::string_view folder = path.substr(top.size(), path.find('/', top.size()) - top.size());
    for (const auto& [room, layer] : kRooms)
      if (folder == room) folder = layer;
    const auto layer = std::ranges::find(kLayers, folder, &Layer::name);
    if (layer != kLayers.end()) return *layer;
  }
  return std::nullopt;
}

inline std::string_view backend_of(std::string_view path) {
  const auto backend = std::ranges::find_if(kBackends, [path](auto folder) { return path.starts_with(folder); });
  return backend == kBackends.end() ? std::string_view() : *backend;
}

/// The reason why `includer` may not include the repository's file `included`; empty if it may.
inline std::string forbidden(std::string_view includer, std::string_view included) {
  const bool is_public = includer.starts_with("include/");
  const bool is_test = includer.starts_with("tests/");
  if (is_public && !included.starts_with("include/")) return "a public header includes a private one";
  if (includer.starts_with("src/") && included.starts_with("tests/")) return "the library includes a test";

  const std::optional<Layer> from = layer_of(includer);
  const std::optional<Layer> to = layer_of(included);
  if (!from || !to || from->name == kUmbrella.name) return "";
  if (to->height > from->height) return "upward: " + std::string(from->name) + " includes " + std::string(to->name);
  if (to->height == from->height && to->name != from->name)
    return "sibling layers: " + std::string(from->name) + " includes " + std::string(to->name);

  const std::string_view to_backend = backend_of(included);
  if (is_test || to_backend.empty()) return "";
  if (from->name != to->name) return "a backend is reached only through src/runtime";
  if (includer.starts_with(kHost)) return "upward: the host's kernels include a backend";
  const std::string_view from_backend = backend_of(includer);
  return from_backend.empty() || from_backend == to_backend ? "" : "sibling backends";
}

/// The reason why `includer` may not include another library's header; empty if it may. Tests and benchmarks may
/// include any.
inline std::string forbidden_vendor(std::string_view includer, std::string_view header) {
  if (!includer.starts_with("include/") && !includer.starts_with("src/") && !includer.starts_with("examples/"))
    return "";
  const auto names = [header](const Vendor& vendor) { return header.starts_with(vendor.header); };
  const auto owned = [&](const Vendor& vendor) { return names(vendor) && includer.starts_with(vendor.owner); };
  if (std::ranges::none_of(kVendors, names) || std::ranges::any_of(kVendors, owned)) return "";
  return includer.starts_with("include/") ? "a vendor's header in a public one"
                                          : "a vendor's header outside its backend";
}

/// Returns one line for each include that breaks a rule and for each library file in no layer; empty if there is none.
inline std::vector<std::string> violations(const Tree& tree) {
  std::vector<std::string> found;
  for (const auto& [path, text] : tree) {
    if ((path.starts_with("include/") || path.starts_with("src/")) && !layer_of(path))
      found.push_back(path + ": in no layer");
    for (const Include& include : includes_of(text)) {
      const std::optional<std::string> included = resolve(tree, path, include.target);
      const std::string reason = included ? forbidden(path, *included) : forbidden_vendor(path, include.target);
      if (!reason.empty())
        found.push_back(path + ':' + std::to_string(include.line) + ": " + include.target + ": " + reason);
    }
  }
  return found;
}

}  // namespace layering
