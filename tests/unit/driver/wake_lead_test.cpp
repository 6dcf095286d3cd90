#include <verge/driver/detail/wake_lead.hpp>

#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace verge::detail::driver {
namespace {

using namespace std::chrono_literals;

// Wake-ups that are `least` late at least, and up to `spread` more.  Returns how many of the last
// thousand came before the deadline.
int sleep_often(wake_lead& lead, duration least, duration spread) {
    std::minstd_rand random(1);
    int too_soon = 0;
    for (int i = 0; i < 4000; ++i) {
        const duration late =
            least + duration(random() % static_cast<std::uint64_t>(spread.count()));
        if (i >= 3000 && late < lead.lead()) ++too_soon;
        lead.woke(late);
    }
    return too_soon;
}

TEST(WakeLead, IsNothingUntilItHasLearned) {
    EXPECT_EQ(wake_lead(8).lead(), 0ns);
    EXPECT_EQ(wake_lead(8, 3us).lead(), 3us) << "or somebody else has";
}

TEST(WakeLead, SettlesWhereAsManyComeTooSoonAsAskedFor) {
    for (const int one_of : {8, 4}) {
        wake_lead lead(one_of);
        const int too_soon = sleep_often(lead, 20us, 16us);
        EXPECT_GT(lead.lead(), 18us);
        EXPECT_LT(lead.lead(), 28us);
        EXPECT_GT(too_soon, 1000 / one_of / 2);
        EXPECT_LT(too_soon, 1000 / one_of * 8 / 5);
    }
}

TEST(WakeLead, FollowsWhenWakeUpsBecomeFaster) {
    wake_lead lead(8);
    sleep_often(lead, 40us, 5us);
    const duration slow = lead.lead();
    int needed = 0;
    for (; lead.lead() > 3us; ++needed)
        lead.woke(3us);
    EXPECT_GT(slow, 35us);
    EXPECT_LT(needed, 64) << "waits awake cost: they end soon";
}

TEST(WakeLead, HasAMost) {
    wake_lead lead(8);
    for (int i = 0; i < 4000; ++i)
        lead.woke(10ms);
    EXPECT_EQ(lead.lead(), wake_lead::most);
}

TEST(WakeLead, IsNeverNegative) {
    wake_lead lead(8);
    for (int i = 0; i < 100; ++i)
        lead.woke(0ns);
    EXPECT_EQ(lead.lead(), 0ns);
}

}  // namespace
}  // namespace verge::detail::driver
