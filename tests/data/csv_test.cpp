// CSV tables.
#include <lockstep/data/csv.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/core/error.h>

#include "support/peak_memory.h"
#include "support/temporary_folder.h"

namespace lockstep::data {
namespace {

using Floats = std::vector<float>;
using Texts = std::vector<std::string>;
using testing::TemporaryFolder;
using testing::write_file;

// Returns the error message without the folder.
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
  const std::string unknown = csv_error([] { csv("a,A\n1,2\n", {.columns = {"b"}}); });
  EXPECT_EQ(unknown.substr(0, 55), "[read_csv] expected an existing column (\"a\", \"A\") in \"/");
  EXPECT_EQ(unknown.substr(unknown.rfind(',')), ", got \"b\"");
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

// A missing number is NaN; a missing text is the empty text.
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
  const CsvCategories known = {{"city", {"Oslo", "Bergen"}}};  // not sorted: the first file determines the order
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

TEST(ReadCsv, EndsLinesWithAnyLineBreak) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const Csv table = csv("a,b" + end + "1,2" + end + end + "\"3\",\"4\"" + end + "5, 6 " + end);
    EXPECT_EQ(table.columns, (Texts{"a", "b"}));
    EXPECT_EQ(table.values.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
    const std::string quoted = "t,a" + end + "\"x" + end + "y\",1" + end;
    EXPECT_EQ(csv_error([&] { csv(quoted + "z,w", {.columns = {"a"}}); }),
              "[x.csv] at byte " + std::to_string(quoted.size()) + ": line 4, column 2: expected a number, got \"w\"");
  }
}

TEST(ReadCsv, KeepsAQuotedFieldOfNothing) {
  EXPECT_EQ(csv("a\n1\n\"\"\n\n  \n3\n", {.missing = -1}).values.to_vector<float>(), (Floats{1, -1, 3}));
  const Csv table = csv("a\nx\n\"\"\n", {.categories = {{"a", {}}}});
  EXPECT_EQ(table.values.to_vector<float>(), (Floats{1, 0}));
}

TEST(ReadCsv, ReadsNumbersOfAnyMagnitude) {
  const std::string tiny = "0." + std::string(400, '0') + '1';
  const Csv table =
      csv("a\n1e-400\n-1e-400\n" + tiny + "\n" + tiny + "e+2\n1e-99999999999999999999\n5e-324\n1e308\n0e999\n",
          {.dtype = kFloat64});
  EXPECT_EQ(table.values.to_vector<double>(), (std::vector<double>{0, 0, 0, 0, 0, 5e-324, 1e308, 0}));
  EXPECT_TRUE(std::signbit(table.values[1].item<double>()));
  EXPECT_EQ(csv("a\n1e-50\n-inf\n65519\n", {.dtype = kFloat16}).values.to_vector<Half>()[2], Half(65504.0f));
  const auto refusal = [](const std::string& number, DType dtype) {
    return csv_error([&] { csv("a\n" + number + '\n', {.dtype = dtype}); });
  };
  EXPECT_EQ(refusal("1e400", kFloat64),
            "[x.csv] at byte 2: line 2, column 1: expected a number that float64 holds, got \"1e400\"");
  EXPECT_EQ(refusal("1" + std::string(310, '0') + "e-1", kFloat64).substr(0, 77),
            "[x.csv] at byte 2: line 2, column 1: expected a number that float64 holds, go");
  EXPECT_EQ(refusal("-1e39", kFloat32),
            "[x.csv] at byte 2: line 2, column 1: expected a number that float32 holds, got \"-1e39\"");
  EXPECT_EQ(refusal("65520", kFloat16),
            "[x.csv] at byte 2: line 2, column 1: expected a number that float16 holds, got \"65520\"");
  EXPECT_EQ(refusal("3.4e38", kBFloat16),
            "[x.csv] at byte 2: line 2, column 1: expected a number that bfloat16 holds, got \"3.4e38\"");
  EXPECT_EQ(csv("a\n3.39e38\n", {.dtype = kBFloat16}).values.to(kFloat32).item<float>(), 3.3895313892515355e38f);
}

TEST(ReadCsv, TakesOneSign) {
  EXPECT_EQ(csv("a\n+5\n-5\n").values.to_vector<float>(), (Floats{5, -5}));
  for (const std::string number : {"+-5", "-+5", "++5", "--5", "+", "+-", "- 5"}) {
    for (const DType dtype : {kFloat32, kInt64})
      EXPECT_NE(csv_error([&] { csv("a\n" + number + '\n', {.dtype = dtype}); }).find("got \"" + number + '"'),
                std::string::npos)
          << number;
  }
}

// Blocks of the file end anywhere: in a line break, in a field, after a quote.
TEST(ReadCsv, ReadsFilesOfManyBlocks) {
  std::string bytes = "a,t\r\n";
  std::vector<double> expected;
  for (int i = 0; bytes.size() < 1'000'000; ++i) {
    bytes +=
        std::to_string(i) + ",\"x\"\"" + std::string(std::size_t(i % 7), 'y') + "\r\n,\"" + (i % 2 ? "\r" : "\r\n");
    expected.push_back(i);
  }
  const Csv table = csv(bytes, {.columns = {"a", "t"}, .dtype = kFloat64, .categories = {{"t", {}}}});
  EXPECT_EQ(table.column("a").to_vector<double>(), expected);
  EXPECT_EQ(table.categories.at("t")[2], "x\"yy\r\n,");
}

TEST(ReadCsv, RefusesWhatIsNoText) {
  EXPECT_EQ(csv_error([] {
              csv(std::string("\xff\xfe"
                              "1\0\n\0",
                              6),
                  {.header = false});
            }),
            "[x.csv] at byte 3: expected text in UTF-8, got a byte 0");
}

TEST(ReadCsv, TakesNoMemoryForAHole) {
  const TemporaryFolder folder;
  write_file(folder / "x.csv", "a,b\n1,2\n");
  std::filesystem::resize_file(folder / "x.csv", std::uintmax_t(1) << 30);
  const testing::PeakMemory peak;
  EXPECT_EQ(csv_error([&] { read_csv(folder / "x.csv"); }), "[x.csv] at byte 8: expected text in UTF-8, got a byte 0");
  EXPECT_LT(peak.taken_bytes(), 64 << 20);
}

TEST(ReadCsv, TakesLittleMemoryForManyFields) {
  const TemporaryFolder folder;
  write_file(folder / "x.csv", std::string(10'000'000, ','));
  const testing::PeakMemory peak;
  for (const bool header : {true, false})
    EXPECT_EQ(csv_error([&] { read_csv(folder / "x.csv", {.header = header}); }),
              "[x.csv] at byte 0: line 1, column 1048577: expected at most 1048576 fields, got more");
  EXPECT_LT(peak.taken_bytes(), 256 << 20);
}

TEST(ReadCsv, RefusesALineThatIsTooLong) {
  EXPECT_EQ(csv_error([] { csv("a\n\"" + std::string(70 << 20, 'x')); }),
            "[x.csv] at byte 2: line 2, column 1: expected lines of at most 67108864 bytes, got a longer one");
}

TEST(Csv, SelectsColumnsByName) {
  const Csv table = csv("a,b,c,c\n1,2,3,4\n5,6,7,8\n");
  EXPECT_EQ(table.select({"b", "a"}).to_vector<float>(), (Floats{2, 1, 6, 5}));
  EXPECT_EQ(csv_error([&] { table.column("d"); }),
            "[Csv] expected an existing column (\"a\", \"b\", \"c\", \"c\"), got \"d\"");
  EXPECT_EQ(csv_error([&] { table.column("c"); }), "[Csv] expected one column \"c\", got several");
  EXPECT_EQ(csv_error([&] { table.select({}); }), "[Csv] expected names of columns, got none");
}

TEST(ReadCsv, RefusesOptionsThatDoNotFitEachOther) {
  EXPECT_EQ(csv_error([] { csv("a\n1\n", {.dtype = kInt64, .missing = std::nan("")}); }),
            "[read_csv] expected an integer as .missing of an int64 table, got nan");
  EXPECT_EQ(csv_error([] {
              csv("1\n", {.header = false, .categories = {{"a", {}}}});
            }),
            "[read_csv] expected a header, because .columns and .categories have column names; got .header = false");
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
