#include "duration_text.hpp"

#include <chrono>
#include <optional>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using verge::duration;
using verge::tool::duration_text;
using verge::tool::parse_duration;
using verge::tool::rounded_duration;

TEST(DurationText, ReadsEveryUnit) {
    EXPECT_EQ(parse_duration("7ns"), duration(7));
    EXPECT_EQ(parse_duration("50us"), duration(50us));
    EXPECT_EQ(parse_duration("200ms"), duration(200ms));
    EXPECT_EQ(parse_duration("3s"), duration(3s));
    EXPECT_EQ(parse_duration("2m"), duration(2min));
    EXPECT_EQ(parse_duration("1h"), duration(1h));
    EXPECT_EQ(parse_duration("0s"), duration(0));
}

TEST(DurationText, ReadsFractionsExactly) {
    EXPECT_EQ(parse_duration("1.5s"), duration(1500ms));
    EXPECT_EQ(parse_duration("0.001us"), duration(1));
    EXPECT_EQ(parse_duration("1.50m"), duration(90s));
    EXPECT_EQ(parse_duration("0.1s"), duration(100ms));  // which no binary fraction is
}

TEST(DurationText, RefusesWhatIsNoDuration) {
    for (const char* text :
         {"", "s", "5", "ms5", "5 ms", " 5ms", "5ms ", "-5ms", "+5ms", "5.ms", ".5ms", "1.2.3s",
          "1e3s", "5MS", "5days", "0x5s", "5,5s", "inf", "nan"}) {
        EXPECT_EQ(parse_duration(text), std::nullopt) << text;
    }
}

TEST(DurationText, RefusesPartsOfANanosecond) {
    EXPECT_EQ(parse_duration("0.5ns"), std::nullopt);
    EXPECT_EQ(parse_duration("1.0ns"), duration(1));
    EXPECT_EQ(parse_duration("0.0001us"), std::nullopt);
}

TEST(DurationText, RefusesWhatIsTooLong) {
    EXPECT_EQ(parse_duration("9223372036s"), duration(9223372036s));
    EXPECT_EQ(parse_duration("9223372037s"), std::nullopt);
    EXPECT_EQ(parse_duration("2562048h"), std::nullopt);
    EXPECT_EQ(parse_duration("99999999999999999999999s"), std::nullopt);
    EXPECT_EQ(parse_duration("0.00000000000000000000001s"), std::nullopt);
}

TEST(DurationText, WritesExactly) {
    EXPECT_EQ(duration_text(200ms), "200 ms");
    EXPECT_EQ(duration_text(1500ms), "1.5 s");
    EXPECT_EQ(duration_text(90s), "90 s");
    EXPECT_EQ(duration_text(50us), "50 us");
    EXPECT_EQ(duration_text(1234567ns), "1234.567 us");
    EXPECT_EQ(duration_text(7ns), "7 ns");
    EXPECT_EQ(duration_text(0ns), "0 ns");
}

TEST(DurationText, RoundsToThreeDigits) {
    EXPECT_EQ(rounded_duration(0), "0 ns");
    EXPECT_EQ(rounded_duration(847), "847 ns");
    EXPECT_EQ(rounded_duration(999.7), "1.00 us");
    EXPECT_EQ(rounded_duration(52'100), "52.1 us");
    EXPECT_EQ(rounded_duration(9'996), "10.0 us");
    EXPECT_EQ(rounded_duration(5'730'000), "5.73 ms");
    EXPECT_EQ(rounded_duration(154'200'000), "154 ms");
    EXPECT_EQ(rounded_duration(1.2e9), "1.20 s");
    EXPECT_EQ(rounded_duration(4e12), "4000 s");
}

}  // namespace
