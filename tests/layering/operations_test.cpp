// docs/operations.md names every operation, layer, optimizer, schedule, transform and method of Tensor, and no others.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

const std::filesystem::path kRoot = LOCKSTEP_SOURCE_DIR;
const std::filesystem::path kHeaders = kRoot / "include/lockstep";
using Names = std::set<std::string>;

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// The lines of a header that declare public names: no comments, no private members, no namespace detail. A base class
/// on a line of its own is joined to its class.
std::vector<std::string> public_lines(const std::filesystem::path& header) {
  const std::string text = std::regex_replace(contents(header), std::regex("\n    : "), " : ");
  std::vector<std::string> lines;
  std::istringstream in(text);
  bool hidden = false, detail = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("namespace") && line.find("detail {") != std::string::npos) detail = true;
    if (detail && line.starts_with("}  // namespace")) detail = false;
    if (line.starts_with(" private:") || line.starts_with(" protected:")) hidden = true;
    if (line.starts_with(" public:") || line.starts_with("};")) hidden = false;
    if (!hidden && !detail) lines.push_back(line.substr(0, line.find("//")));
  }
  return lines;
}

/// The first capture of `pattern` in the lines of a header, or of all headers in a folder.
Names declared(const std::string& where, const std::string& pattern) {
  std::vector<std::filesystem::path> headers;
  if (std::filesystem::is_directory(kHeaders / where))
    for (const auto& entry : std::filesystem::directory_iterator(kHeaders / where)) headers.push_back(entry.path());
  else
    headers.push_back(kHeaders / where);
  Names names;
  const std::regex regex("^" + pattern);
  for (const auto& header : headers)
    for (const std::string& line : public_lines(header))
      if (std::smatch match; std::regex_search(line, match, regex) && !match[1].str().ends_with("Options"))
        names.insert(match[1]);
  return names;
}

Names functions_and_classes() {
  const std::string type = R"((?:[A-Z]\w*&?|void|bool|double|auto|std::[\w:]+<[^()]*>))";
  const std::string function = "(?:LOCKSTEP_API |inline )?" + type + R"( ([a-z]\w*)\()";
  const std::string klass = R"((?:class|struct) (?:LOCKSTEP_API )?(\w+)(?: final)?)";
  const std::string alias = R"(using (\w+) = \w+<)";
  Names all;
  for (const char* where : {"ops", "nn/functional.h", "nn/packed_sequence.h", "nn/weight_norm.h", "nn/init.h",
                            "tensor/creation.h", "tensor/random.h", "optim/clip.h", "train/criterion.h"})
    all.merge(declared(where, function));
  for (const char* where : {"nn", "parallel/sync_batch_norm.h"})
    all.merge(declared(where, klass + R"( : (?:public )?Module<\1>)"));
  all.merge(declared("nn", klass + R"( : (?:public )?detail::\w+<\1\b)"));
  all.merge(declared("nn", alias));
  all.merge(declared("optim", alias));
  all.merge(declared("optim", R"(class LOCKSTEP_API (\w+) final : public (?:OptimizerWith<\1Options>|Schedule))"));
  all.merge(declared("ops/distributions.h", R"(class LOCKSTEP_API (\w+) \{)"));
  for (const char* where : {"data/transforms.h", "data/augmentations.h"}) all.merge(declared(where, klass + R"( \{)"));
  return all;
}

Names methods() {
  const std::string method = R"(  (?!explicit)(?:const )?[A-Za-z][\w:]*(?:<[^()]*>)?[&*]? (\w+)\()";
  Names all = declared("tensor/methods.h", method);
  all.merge(declared("tensor/tensor.h", method));
  return all;
}

/// The names in the first column of the page's tables: of its last section, on methods, or of the others.
Names named(bool in_methods) {
  Names names;
  std::istringstream in(contents(kRoot / "docs/operations.md"));
  const std::regex name("`(\\w+)`");
  bool methods = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) methods = line == "## Methods of Tensor";
    if (methods != in_methods || !line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    for (std::sregex_iterator it(cell.begin(), cell.end(), name); it != std::sregex_iterator(); ++it)
      names.insert((*it)[1]);
  }
  return names;
}

std::string listed(const Names& a, const Names& without) {
  std::string list;
  for (const std::string& name : a)
    if (!without.contains(name)) list += name + ' ';
  return list;
}

/// Every name that a header declares or calls: words after class, struct or using, and words before a parenthesis.
Names all_names() {
  const std::regex name(R"((?:class|struct|using) (?:LOCKSTEP_API )?(\w+)|(\w+)\()");
  Names names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kHeaders)) {
    if (!entry.is_regular_file()) continue;
    for (const std::string& line : public_lines(entry.path()))
      for (std::sregex_iterator it(line.begin(), line.end(), name); it != std::sregex_iterator(); ++it)
        names.insert((*it)[1].matched ? (*it)[1] : (*it)[2]);
  }
  return names;
}

TEST(Operations, AreAllOnThePage) {
  EXPECT_EQ(listed(functions_and_classes(), named(false)), "") << "missing in docs/operations.md";
}

TEST(Operations, OfThePageExist) {
  EXPECT_EQ(listed(named(false), all_names()), "") << "no header declares these names of docs/operations.md";
}

TEST(Operations, AreMethodsAsThePageSays) {
  EXPECT_EQ(listed(methods(), named(true)), "") << "missing among the methods in docs/operations.md";
  EXPECT_EQ(listed(named(true), methods()), "") << "Tensor does not have these methods";
}

TEST(Operations, AreFoundInTheHeaders) {
  const Names all = functions_and_classes(), of_tensor = methods();
  for (const char* name : {"add", "sort", "einsum", "pad_sequence", "Conv2d", "LazyConv1d", "MultiLabelMarginLoss",
                           "Adam", "SGD", "CyclicLR", "StepLR", "Normalize", "Categorical", "SyncBatchNorm", "zeros_"})
    EXPECT_TRUE(all.contains(name)) << name;
  for (const char* name : {"sum", "T", "chunk", "add_", "item", "backward"})
    EXPECT_TRUE(of_tensor.contains(name)) << name;
  for (const char* name : {"self", "raw_data", "picked"}) EXPECT_FALSE(of_tensor.contains(name)) << name;
}

}  // namespace
