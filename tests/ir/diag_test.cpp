// What of foreign text may be shown and stored.
#include "pock/support/diag.h"

#include <gtest/gtest.h>

namespace pock {
namespace {

TEST(Diag, TextIsUtf8WithoutZero) {
  for (const char* good :
       {"", "w", "conv1.weight", "a\tb\n", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
        "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
        "gr\xc3\xb6\xc3\x9f"
        "e \xe5\xb1\xa4 \xf0\x9f\x8d\x80"}) {
    EXPECT_TRUE(is_text(good)) << good;
    if (!std::string_view(good).starts_with("a\t")) EXPECT_EQ(printable(good), good);
  }
  const std::pair<std::string, const char*> bad[] = {
      {"a\x80", "a\\x80"},  // in the middle of a character
      {"\xff"
       "b",
       "\\xffb"},
      {"\xc3", "\\xc3"},  // cut off
      {"\xe5\xb1", "\\xe5\\xb1"},
      {"\xf0\x9f\x8dz", "\\xf0\\x9f\\x8dz"},
      {"\xc0\x80", "\\xc0\\x80"},  // longer than need be
      {"\xc1\xbf", "\\xc1\\xbf"},
      {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf"},
      {"\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // half of a pair of UTF-16
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond Unicode
      {"\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"},
      {std::string("a\0b", 3), "a\\x00b"}};
  for (const auto& [text, shown] : bad) {
    EXPECT_FALSE(is_text(text)) << shown;
    EXPECT_EQ(printable(text), shown);
  }
}

}  // namespace
}  // namespace pock
