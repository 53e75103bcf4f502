// Tables of text.
#include <lockstep/data/csv.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <lockstep/core/error.h>

#include "support/temporary_folder.h"

namespace lockstep::data {
namespace {

using Floats = std::vector<float>;
using Texts = std::vector<std::string>;
using testing::TemporaryFolder;
using testing::write_file;

// The message without the folder.
template <class Body>
std::string csv_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    std::string what = error.what();
    const std::size_t end = what.find(']'), slash = what.rfind('/', end);
    return slash < end ? '[' + what.substr(slash + 1) : what;
  }
  return "";
}

Csv csv(const std::string& bytes, const CsvOptions& options = {}) {
  const TemporaryFolder folder;
  write_file(folder / "x.csv", bytes);
  return read_csv(folder / "x.csv", options);
}

TEST(ReadCsv, GivesNamesAndNumbers) {
  const Csv table = csv("a, b ,\"c d\"\r\n1,2.5,-3e2\r\n\r\n+4, 5 ,\"6\"");
  EXPECT_EQ(table.columns, (std::vector<std::string>{"a", "b", "c d"}));
  EXPECT_EQ(table.values.sizes(), (Shape{2, 3}));
  EXPECT_EQ(table.values.to_vector<float>(), (Floats{1, 2.5, -300, 4, 5, 6}));
}

TEST(ReadCsv, TakesColumnsByNameAndLeavesTextsAlone) {
  const Csv table = csv("name,x,y\n\"a \"\"b\"\", c\",1,2\nd,3,4\n", {.columns = {"y", "x"}, .dtype = kInt64});
  EXPECT_EQ(table.values.to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 1, 4, 3}));
  EXPECT_EQ(csv_error([] { csv("a\n1\n", {.columns = {"b"}}); }).substr(0, 38),
            "[read_csv] expected a column \"b\" in \"/");
}

TEST(ReadCsv, ReadsOtherForms) {
  EXPECT_EQ(csv("1;2\n3;4\n", {.separator = ';', .header = false}).values.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(csv("1\t\t3\n", {.separator = '\t', .header = false, .missing = -1}).values.to_vector<float>(),
            (Floats{1, -1, 3}));
  EXPECT_EQ(csv("").values.sizes(), (Shape{0, 0}));
  EXPECT_EQ(csv("a,b\n").values.sizes(), (Shape{0, 2}));
  EXPECT_EQ(csv("\xef\xbb\xbf"
                "a\n0.1\n",
                {.dtype = kFloat64})
                .values.item<double>(),
            0.1);
}

TEST(ReadCsv, NamesLineAndColumn) {
  EXPECT_EQ(csv_error([] { csv("a,b\n1,2\n3,x\n"); }),
            "[x.csv] at byte 8: line 3, column 2: expected a number, got \"x\"");
  EXPECT_EQ(csv_error([] { csv("a,b\n1,\n"); }), "[x.csv] at byte 4: line 2, column 2: expected a number, got \"\"");
  EXPECT_EQ(csv_error([] { csv("a,b\n1,2,3\n"); }), "[x.csv] at byte 4: line 2, column 2: expected 2 fields, got 3");
  EXPECT_EQ(csv_error([] { csv("a\n1.5\n", {.dtype = kInt64}); }),
            "[x.csv] at byte 2: line 2, column 1: expected an integer, got \"1.5\"");
  EXPECT_EQ(csv_error([] { csv("a\n\"1\n"); }),
            "[x.csv] at byte 2: line 2, column 1: expected a quote at the end of the field, got the end of the file");
  EXPECT_EQ(csv_error([] { csv("a\n\"1\"2\n"); }),
            "[x.csv] at byte 2: line 2, column 1: expected a separator after the quote, got \"2\"");
  EXPECT_EQ(csv_error([] { csv("t,a\n\"x\ny\",1\nz,w\n", {.columns = {"a"}}); }),
            "[x.csv] at byte 12: line 4, column 2: expected a number, got \"w\"");
}

// A missing number is NaN, and a missing text is a text.
TEST(ReadCsv, GivesTextsTheNumbersOfTheirSortedCategories) {
  const Csv table = csv("city,area\nOslo,50\n\"Bergen, west\",\n,30\nOslo,20\n",
                        {.missing = std::nan(""), .categories = {{"city", {}}}});
  EXPECT_EQ(table.categories.at("city"), (Texts{"", "Bergen, west", "Oslo"}));
  EXPECT_EQ(table.column("city").to_vector<float>(), (Floats{2, 1, 0, 2}));
  const Floats areas = table.column("area").to_vector<float>();
  EXPECT_TRUE(std::isnan(areas[1]));
  EXPECT_EQ(areas[3], 20);
}

TEST(ReadCsv, GivesASecondFileTheNumbersOfTheFirst) {
  const CsvCategories known = {{"city", {"Oslo", "Bergen"}}};  // in no order: it is the first file's to say
  const Csv table = csv("area,city\n1,Bergen\n2,Oslo\n", {.columns = {"city"}, .dtype = kInt64, .categories = known});
  EXPECT_EQ(table.values.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(table.categories, known);
  EXPECT_EQ(csv_error([&] { csv("area,city\n1,Rome\n", {.categories = known}); }),
            "[x.csv] at byte 10: line 2, column 2: expected one of 2 categories, got \"Rome\"");
}

TEST(ReadCsv, TakesOtherTextsForAMissingNumber) {
  EXPECT_EQ(csv("a,b\nNA,1\n?,\n", {.missing = -1, .na_values = {"NA", "?"}}).values.to_vector<float>(),
            (Floats{-1, 1, -1, -1}));
}

TEST(Csv, SelectsColumnsByName) {
  const Csv table = csv("a,b,c,c\n1,2,3,4\n5,6,7,8\n");
  EXPECT_EQ(table.select({"b", "a"}).to_vector<float>(), (Floats{2, 1, 6, 5}));
  EXPECT_EQ(csv_error([&] { table.column("d"); }), "[Csv] expected a column \"d\", got none");
  EXPECT_EQ(csv_error([&] { table.column("c"); }), "[Csv] expected one column \"c\", got several");
  EXPECT_EQ(csv_error([&] { table.select({}); }), "[Csv] expected names of columns, got none");
}

TEST(ReadCsv, RefusesOptionsThatDoNotFitEachOther) {
  EXPECT_EQ(csv_error([] { csv("a\n1\n", {.dtype = kInt64, .missing = std::nan("")}); }),
            "[read_csv] expected an integer as .missing of an int64 table, got nan");
  EXPECT_EQ(csv_error([] {
              csv("1\n", {.header = false, .categories = {{"a", {}}}});
            }),
            "[read_csv] expected a header for columns by name, got .header = false");
  EXPECT_EQ(csv_error([] {
              csv("a\nx\n", {.categories = {{"a", {"x", "x"}}}});
            }),
            "[read_csv] expected different categories of \"a\", got \"x\" twice");
  std::string many = "a\n";
  for (int i = 0; i < 257; ++i) many += "t" + std::to_string(i) + '\n';
  EXPECT_EQ(csv_error([&] {
              csv(many, {.dtype = kBFloat16, .categories = {{"a", {}}}});
            }),
            "[read_csv] expected at most 256 categories in \"a\" for bfloat16, got 257");
}

}  // namespace
}  // namespace lockstep::data
