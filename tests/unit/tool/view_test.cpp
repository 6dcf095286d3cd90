#include "view.hpp"

#include "demo_report.hpp"
#include "terminal.hpp"

#include <chrono>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using namespace verge::tool;

constexpr text_style ascii{};
constexpr text_style fancy{.columns = 80, .colours = true, .unicode = true};

demo_run some_run(std::size_t workers = 2) {
    demo_run run;
    run.options.workers = static_cast<unsigned>(workers);
    run.seconds_asked = 20;
    run.processors = 2;
    verge::histogram late;
    late.record(52'000, 99);
    late.record(5'700'000);
    for (int i = 1; i <= 30; ++i) {
        sample s;
        s.seconds = 0.2 * i;
        s.calls_per_second = 200'563;
        s.late_p99_us = 50.0 * i;
        s.processors = 0.31;
        s.resident_bytes = 6'200'000;
        s.figures.calls = 1'200'000;
        s.figures.answered = 1'190'000;
        s.figures.timed_out = 9'000;
        s.figures.on_their_way = 1'000;
        s.figures.pending = 2'159;
        s.figures.fired = 1'208'000;
        s.figures.cancelled = 1'190'001;
        s.figures.lateness = late.snapshot();
        s.figures.worker_busy.assign(workers, 0.25);
        run.samples.add(s);
    }
    run.seconds_sending = 6;
    run.calls_sending = 1'200'000;
    return run;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

TEST(View, GroupsDigits) {
    EXPECT_EQ(grouped(0), "0");
    EXPECT_EQ(grouped(999), "999");
    EXPECT_EQ(grouped(1000), "1,000");
    EXPECT_EQ(grouped(1'234'567), "1,234,567");
    EXPECT_EQ(bytes_text(400'000), "400 kB");
    EXPECT_EQ(bytes_text(6'200'000), "6.2 MB");
    EXPECT_EQ(bytes_text(1'260'000'000), "1.26 GB");
}

TEST(View, ABarShowsItsShare) {
    EXPECT_EQ(bar(0, 4, ascii), "....");
    EXPECT_EQ(bar(0.5, 4, ascii), "##..");
    EXPECT_EQ(bar(1, 4, ascii), "####");
    EXPECT_EQ(bar(7, 4, ascii), "####");
    EXPECT_EQ(bar(-1, 4, ascii), "....");
    EXPECT_EQ(bar(std::nan(""), 4, ascii), "....");
    EXPECT_EQ(bar(0.5, 2, fancy), "█░");
}

TEST(View, ASparklineIsLogarithmic) {
    EXPECT_EQ(sparkline(std::vector<double>{1, 10, 100}, 10, ascii), ".+#");
    EXPECT_EQ(sparkline(std::vector<double>{1, 10, 100}, 10, fancy), "▁▅█");
}

TEST(View, ASparklineShowsTheLast) {
    EXPECT_EQ(sparkline(std::vector<double>{1e6, 1, 100}, 2, ascii), ".#");
    EXPECT_EQ(sparkline({}, 5, ascii), "");
}

TEST(View, ASparklineKeepsNoiseSmall) {
    EXPECT_EQ(sparkline(std::vector<double>{50, 51, 50}, 10, ascii), "...");
    EXPECT_EQ(sparkline(std::vector<double>{0, 0}, 10, ascii), "..");
    EXPECT_EQ(sparkline(std::vector<double>{0, 1000, 10'000}, 10, ascii), "..#");
}

TEST(View, ColoursTakeNoColumn) {
    EXPECT_EQ(visible_columns("abc"), 3U);
    EXPECT_EQ(visible_columns("\x1b[32mabc\x1b[0m"), 3U);
    EXPECT_EQ(visible_columns("█░▁"), 3U);
    EXPECT_EQ(visible_columns("\x1b[32"), 0U);  // cut in the middle
}

TEST(View, FitsEveryWidth) {
    for (const std::size_t workers : {1U, 2U, 3U, 8U, 9U, 256U}) {
        const demo_run run = some_run(workers);
        for (std::size_t columns = 1; columns < 200; ++columns) {
            for (const bool rich : {false, true}) {
                const text_style style{.columns = columns, .colours = rich, .unicode = rich};
                for (const std::string& line : lines_of(live_view(run, style)))
                    ASSERT_LE(visible_columns(line), columns) << columns << ": " << line;
            }
        }
    }
}

TEST(View, ShowsTheFigures) {
    const std::string text = live_view(some_run(), ascii);
    for (const char* part :
         {"thread engine, 2 workers, 200,000 calls/s, time-out 200 ms", "6.0 / 20 s", "200,563",
          "1,200,000", "2,159", "1,208,000", "1,190,001", "p50 52.", "p99.9 5.70 ms", "max 5.70 ms",
          "0.31 of 2", "6.2 MB", " 25 %"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    }
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(View, IsNarrowOnANarrowTerminal) {
    const text_style narrow{.columns = 40};
    const std::string text = live_view(some_run(), narrow);
    EXPECT_NE(text.find("1,208,000"), std::string::npos);
    EXPECT_NE(text.find("max 5.70 ms"), std::string::npos);
    EXPECT_GT(lines_of(text).size(), lines_of(live_view(some_run(), ascii)).size());
}

TEST(View, EveryColourEnds) {
    for (const std::size_t columns : {80U, 40U, 17U}) {
        const text_style style{.columns = columns, .colours = true, .unicode = true};
        for (const std::string& line : lines_of(live_view(some_run(), style))) {
            const std::size_t last = line.rfind('\x1b');
            if (last == std::string::npos) continue;
            EXPECT_EQ(line.substr(last, 4), "\x1b[0m") << line;
        }
    }
}

TEST(View, TheHeadingBreaksWhereItMust) {
    EXPECT_EQ(heading(some_run(), ascii),
              "verge demo  thread engine, 2 workers, 200,000 calls/s, time-out 200 ms\n");
    const text_style narrow{.columns = 40};
    EXPECT_EQ(heading(some_run(), narrow),
              "verge demo\n  thread engine, 2 workers,\n  200,000 calls/s, time-out 200 ms\n");
}

TEST(View, SaysThatItIsEnding) {
    demo_run run = some_run();
    run.finishing = true;
    EXPECT_NE(live_view(run, ascii).find("ending the calls on their way"), std::string::npos);
}

TEST(View, WithoutATimeOutThereIsNoLateness) {
    demo_run run = some_run();
    sample s = run.samples.last();
    s.figures.lateness = {};
    s.figures.timed_out = 0;
    run.samples.add(s);
    EXPECT_NE(live_view(run, ascii).find("no time-out has fired yet"), std::string::npos);
    EXPECT_EQ(summary(run, "", ascii).find("late by"), std::string::npos);
}

TEST(View, ALineForAPipe) {
    const std::string line = progress_line(some_run());
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
    for (const char* part : {"6.0 s", "200,563 calls/s", "2,159", "max 5.70 ms"})
        EXPECT_NE(line.find(part), std::string::npos) << part << " is not in " << line;
}

TEST(View, TheSummaryIsHonest) {
    demo_run run = some_run();
    const std::string good = summary(run, "", ascii);
    EXPECT_NE(good.find("\nOK: calls = answered + timed out; nothing lost, nothing early\n"),
              std::string::npos);
    EXPECT_EQ(good.find("The machine made"), std::string::npos);
    const std::string bad = summary(run, "time-outs fired early", ascii);
    EXPECT_NE(bad.find("\nWRONG: time-outs fired early\n"), std::string::npos);
    EXPECT_EQ(bad.find("OK"), std::string::npos);
    run.calls_sending /= 2;
    EXPECT_NE(summary(run, "", ascii).find("The machine made 50 % of the calls asked for."),
              std::string::npos);
    run.interrupted = true;
    EXPECT_NE(summary(run, "", ascii).find("then interrupted"), std::string::npos);
}

TEST(View, RowsOfBrokenLines) {
    EXPECT_EQ(rows_of("", 10), 0U);
    EXPECT_EQ(rows_of("abc\n", 10), 1U);
    EXPECT_EQ(rows_of("abc\n\nabc\n", 10), 3U);
    EXPECT_EQ(rows_of("0123456789\n", 10), 1U);
    EXPECT_EQ(rows_of("0123456789a\n", 10), 2U);
    EXPECT_EQ(rows_of("\x1b[32m0123456789\x1b[0m\n", 10), 1U);
}

TEST(View, ThePageSaysWhatIsWrong) {
    EXPECT_NE(demo_page(some_run(), "").find("OK: calls"), std::string::npos);
    EXPECT_NE(demo_page(some_run(), "a < b").find("WRONG: a &lt; b"), std::string::npos);
}

TEST(View, TheJsonSaysWhatIsWrong) {
    EXPECT_NE(demo_json(some_run(), "").find(R"("ok":true,"wrong":"")"), std::string::npos);
    EXPECT_NE(demo_json(some_run(), "a").find(R"("ok":false,"wrong":"a")"), std::string::npos);
}

}  // namespace
