// What atlas_page refuses, and how it puts data into a page. What the page does is tested in a browser: test_atlas.py.
#include <gtest/gtest.h>

#include <string>

#include "multihead/atlas_report.hpp"
#include "support/error_text.hpp"

namespace multihead {
namespace {

std::string error_of(const std::string& text) {
  return test::error_of<CheckpointError>([&] { atlas_page("t", text); });
}

TEST(AtlasPage, RefusesWhatIsNotJson) {
  EXPECT_EQ(error_of(""), "atlas_page: heads_json must be JSON, got byte=1");
  EXPECT_EQ(error_of("{\"heads\": [}"), "atlas_page: heads_json must be JSON, got byte=12");
  EXPECT_EQ(error_of("{\"heads\": NaN}"), "atlas_page: heads_json must be JSON, got byte=11");
}

TEST(AtlasPage, RefusesJsonThatIsTooDeep) {
  EXPECT_EQ(error_of(std::string(1'000'000, '[')), "atlas_page: levels of the JSON must be few, got depth=65, most=64");
}

TEST(AtlasPage, RefusesWhatListsNoHeads) {
  for (const char* text : {"[]", "7", "{}", "{\"heads\": {}}", "{\"heads\": []}"}) {
    EXPECT_EQ(error_of(text), "atlas_page: heads_json must have a list of heads; write it by multihead heads --json");
  }
}

TEST(AtlasPage, RefusesHeadsWithoutAPlace) {
  for (const char* head : {"7", "{\"head\": 0}", "{\"layer\": -1, \"head\": 0}", "{\"layer\": 1.5, \"head\": 0}",
                           "{\"layer\": 10000, \"head\": 0}"}) {
    EXPECT_EQ(error_of("{\"heads\": [" + std::string(head) + "]}"),
              "atlas_page: layer of a head must be a whole number below 10000, got entry=0");
  }
  EXPECT_EQ(error_of("{\"heads\": [{\"layer\": 0, \"head\": 1}, {\"layer\": 0, \"head\": \"1\"}]}"),
            "atlas_page: head of a head must be a whole number below 10000, got entry=1");
  EXPECT_EQ(error_of("{\"heads\": [{\"layer\": 0, \"head\": 1}, {\"layer\": 0, \"head\": 1}]}"),
            "atlas_page: a head must be listed once, got layer=0, head=1");
}

TEST(AtlasPage, RoundsPairsAndNothingElse) {
  const std::string page = atlas_page(
      "t",
      R"({"heads": [{"layer": 0, "head": 0, "importance": 0.123456789}], "similarity": {"cosine": [[0.123456789]]}})");
  EXPECT_NE(page.find("\"importance\":0.123456789"), std::string::npos);
  EXPECT_NE(page.find("[[0.1235]]"), std::string::npos);
}

TEST(AtlasPage, MarkupInDataStaysData) {
  const std::string page = atlas_page("<b>", R"({"heads": [{"layer": 0, "head": 0, "role": "</script><img>"}]})");
  EXPECT_EQ(page.find("</script><img>"), std::string::npos);
  EXPECT_NE(page.find("<title>&lt;b&gt;</title>"), std::string::npos);
}

}  // namespace
}  // namespace multihead
