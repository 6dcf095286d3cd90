// What only the wheel promises.  All else it shares with the heap: timer_queue_test.cpp.

#include "support/wheel_access.hpp"
#include "unit/queue/timer_queue_fixture.hpp"
#include <verge/queue/timing_wheel.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <type_traits>
#include <vector>

namespace verge {
namespace {

using timer = named<wheel_timer>;

static_assert(sizeof(wheel_timer) == 32);
static_assert(sizeof(timing_wheel<>) <= 8192);
static_assert(!std::is_copy_constructible_v<wheel_timer> &&
              !std::is_move_assignable_v<wheel_timer>);
static_assert(!std::is_copy_constructible_v<timing_wheel<>>);
static_assert(std::is_nothrow_constructible_v<timing_wheel<>, tick>);

// The worked example of the article that the wheel comes from (its slots are 20 a level, ours 64
// there). c is where the hand points; nothing may fire but when the hand comes to its tick.
TEST(TimingWheel, FollowsTheArticle) {
    named_wheel wheel(0);
    timer t1(1);
    timer t2(2);
    timer t3(3);
    wheel.arm_after(t1, 2);
    EXPECT_EQ(fired_by(wheel, 1), names{});
    EXPECT_EQ(fired_by(wheel, 2), names{1});

    wheel.arm_after(t2, 8);  // at c = 2: it goes to slot 10
    EXPECT_EQ(t2.deadline(), 10U);
    for (tick c = 3; c < 10; ++c)
        EXPECT_EQ(fired_by(wheel, c), names{});
    EXPECT_EQ(fired_by(wheel, 10), names{2});

    wheel.arm_after(t3, 350);  // at c = 10: beyond the first level, there and here
    EXPECT_EQ(t3.deadline(), 360U);
    for (tick c = 11; c < 360; ++c) {
        EXPECT_EQ(fired_by(wheel, c), names{});
        EXPECT_EQ(wheel.next_bound(), 360U);
    }
    EXPECT_EQ(fired_by(wheel, 360), names{3});
}

// "One slot of the second level may hold both a task due in 20 and one due in 39: they must not
// fire together", but go down to the first level when the hand comes round.
TEST(TimingWheel, DemotesWhatSharesASlot) {
    for (const tick slot : {20U, 64U}) {  // the article's, and ours: of the same span as level 0
        for (const bool later_first : {false, true}) {
            named_wheel wheel(0);
            timer early(1);
            timer late(2);
            if (later_first) wheel.arm_after(late, 2 * slot - 1);
            wheel.arm_after(early, slot);
            if (!later_first) wheel.arm_after(late, 2 * slot - 1);
            for (tick c = 1; c < 3 * slot; ++c) {
                const names due = c == slot ? names{1} : c == 2 * slot - 1 ? names{2} : names{};
                EXPECT_EQ(fired_by(wheel, c), due) << "at " << c;
            }
        }
    }
}

// A list that is not in order, whose first is cancelled: what is known of the next one.
TEST(TimingWheel, TheBoundAfterACancelIsExactWhereTheNextIsKnownToBeTheLeast) {
    struct {
        std::vector<tick> deadlines;
        tick bound;  // after the first was cancelled; 64: the start of the slot
    } const cases[] = {
        {{70, 80, 90}, 80},      // in order
        {{70, 70, 90, 80}, 70},  // its equal
        {{70, 90, 80}, 64},      // perhaps, but nobody knows
    };
    for (const auto& each : cases) {
        named_wheel wheel(0);
        std::deque<timer> timers =
            make_timers<named_wheel>(static_cast<int>(each.deadlines.size()));
        for (std::size_t i = 0; i < timers.size(); ++i)
            wheel.arm_at(timers[i], each.deadlines[i]);
        EXPECT_EQ(wheel.next_bound(), 70U);
        wheel.cancel(timers.front());
        EXPECT_EQ(wheel.next_bound(), each.bound);
        EXPECT_EQ(wheel.check(), nullptr);
    }
}

// Sleeps on next_bound(), as a driver does, until nothing is left; returns how often it woke.
std::size_t wake_ups(named_wheel& wheel, names* fired = nullptr) {
    std::size_t count = 0;
    while (const auto bound = wheel.next_bound()) {
        if (count > 0) {
            EXPECT_GT(*bound, wheel.now()) << "it would not sleep at all";
        }
        const names some = fired_by(wheel, *bound);
        if (fired != nullptr) fired->insert(fired->end(), some.begin(), some.end());
        ++count;
    }
    return count;
}

std::vector<tick> deadlines_over(tick span, int count, unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<tick> deadlines;
    while (deadlines.size() < static_cast<std::size_t>(count)) {
        const tick deadline = 1 + random() % span;
        if (std::find(deadlines.begin(), deadlines.end(), deadline) == deadlines.end()) {
            deadlines.push_back(deadline);
        }
    }
    return deadlines;
}

TEST(TimingWheel, WakesUpOnceForEachTimer) {
    for (const tick day : {day_of_ms, day_of_ns}) {
        for (unsigned seed = 0; seed < 20; ++seed) {
            named_wheel wheel(0);
            auto timers = make_timers<named_wheel>(100);
            const auto deadlines = deadlines_over(day, 100, seed);
            for (std::size_t i = 0; i < 100; ++i)
                wheel.arm_at(timers[i], deadlines[i]);
            EXPECT_EQ(wake_ups(wheel), 100U) << "seed " << seed;
        }
    }
}

// Equal deadlines share a wake-up, and so do timers with slack.
TEST(TimingWheel, WakesUpOnceForTimersThatShareATick) {
    named_wheel wheel(0);
    auto timers = make_timers<named_wheel>(100);
    for (auto& t : timers)
        wheel.arm_at(t, 1'000'000 + static_cast<tick>(t.name) / 25);
    EXPECT_EQ(wake_ups(wheel), 4U);
    const tick now = wheel.now();
    for (auto& t : timers) {
        const tick earliest = now + 5000 + static_cast<tick>(t.name);
        wheel.arm_in_range(t, earliest, earliest + 1000);
    }
    EXPECT_LE(wake_ups(wheel), 2U);
}

// A cancel may leave a bound that is early.  It costs one wake-up at most, not one a tick.
TEST(TimingWheel, WakesUpAtMostOnceMoreForEachCancel) {
    for (const tick day : {day_of_ms, day_of_ns}) {
        for (unsigned seed = 0; seed < 50; ++seed) {
            named_wheel wheel(0);
            auto timers = make_timers<named_wheel>(100);
            const auto deadlines = deadlines_over(day, 100, seed);
            for (std::size_t i = 0; i < 100; ++i)
                wheel.arm_at(timers[i], deadlines[i]);
            const std::size_t cancels = 1 + seed % 60;
            for (std::size_t i = 0; i < cancels; ++i) {
                for (auto& t : timers) {
                    if (t.armed() && t.deadline() == wheel.next_expiry()) {
                        EXPECT_TRUE(wheel.cancel(t));
                        break;
                    }
                }
                EXPECT_LE(wheel.next_bound(), wheel.next_expiry());
            }
            const std::size_t count = wake_ups(wheel);
            EXPECT_GE(count, 100 - cancels);
            EXPECT_LE(count, 100U) << "seed " << seed;
        }
    }
}

// All but one of a great crowd are cancelled: the one does not wait for, nor pay for, the others.
TEST(TimingWheel, ForgetsTheCancelled) {
    named_wheel wheel(0);
    auto timers = make_timers<named_wheel>(10'000);
    const auto deadlines = deadlines_over(day_of_ns, 10'000, 5);
    for (std::size_t i = 0; i < timers.size(); ++i)
        wheel.arm_at(timers[i], deadlines[i]);
    for (std::size_t i = 0; i < timers.size(); ++i) {
        if (i != 5000) {
            EXPECT_TRUE(wheel.cancel(timers[i]));
        }
    }
    EXPECT_EQ(wheel.size(), 1U);
    EXPECT_EQ(wheel.check(), nullptr);
    EXPECT_EQ(wheel.next_expiry(), deadlines[5000]);
    names fired;
    EXPECT_LE(wake_ups(wheel, &fired), wheel_levels);
    EXPECT_EQ(fired, names{5000});
    EXPECT_EQ(wheel.now(), deadlines[5000]);
}

// A great crowd in one slot far away goes down level by level.  If each timer that fires cost a
// walk through the others, this would take hours.
TEST(TimingWheel, FilesATimerAgainOnceALevelAtMost) {
    named_wheel wheel(0);
    auto timers = make_timers<named_wheel>(200'000);
    for (auto& t : timers) {
        const auto shuffled = static_cast<tick>(t.name) * 7919 % timers.size();
        wheel.arm_at(t, slot_span(5) + shuffled * 5);
    }
    tick last = 0;
    const std::size_t fired = wheel.advance(2 * slot_span(5), [&](timer& t) {
        ASSERT_LT(last, t.deadline());
        last = t.deadline();
    });
    EXPECT_EQ(fired, timers.size());

    // Nor if the first of them is cancelled again and again, and nothing known about the rest.
    for (auto& t : timers) {
        const auto shuffled = static_cast<tick>(t.name) * 7919 % timers.size();
        wheel.arm_at(t, 3 * slot_span(5) + shuffled * 5);
    }
    for (auto& t : timers) {
        wheel.cancel(t);
        if (const auto bound = wheel.next_bound()) wheel.advance(*bound, [](timer&) {});
    }
    EXPECT_TRUE(wheel.empty());
}

// 600 timers in each of four slots of level 2, where more than 512 make a slot long.
class LongSlots : public testing::Test {
protected:
    static constexpr tick span = slot_span(2);
    static constexpr int each = 600;

    LongSlots() {
        detail::queue::wheel_access::set_long_slot(wheel_, 512);
        arm_if([](int) { return true; });
    }

    template <class Choose>
    void arm_if(Choose choose) {
        for (timer& t : timers_) {
            const auto slot = static_cast<tick>(1 + t.name / each);
            const auto step = static_cast<tick>(t.name % each);
            if (choose(t.name)) wheel_.arm_at(t, slot * span + 2 + step * 2741 % (span - 4));
        }
    }

    // Advances to one tick after the other and demands that what fires is due then.
    void advance_to(tick end) {
        while (wheel_.now() < end) {
            const tick now = wheel_.now() + 1;
            wheel_.advance(now, [&](timer& t) { EXPECT_EQ(t.deadline(), now); });
        }
        EXPECT_EQ(wheel_.check(), nullptr);
    }

    template <class Choose>
    void cancel_if(Choose choose) {
        for (timer& t : timers_) {
            if (choose(t.name)) wheel_.cancel(t);
        }
    }

    [[nodiscard]] bool is_precascading() const {
        return detail::queue::wheel_access::is_precascading(wheel_);
    }
    [[nodiscard]] bool has_precascaded() const {
        return detail::queue::wheel_access::has_precascaded(wheel_);
    }

    std::deque<timer> timers_ = make_timers<named_wheel>(4 * each);
    named_wheel wheel_{0};
};

TEST_F(LongSlots, ArePrecascadedOnceOneWasLong) {
    advance_to(span - 1);
    EXPECT_FALSE(is_precascading());
    for (tick slot = 1; slot <= 3; ++slot) {
        advance_to(slot * span + 100);
        EXPECT_TRUE(is_precascading());
        EXPECT_FALSE(has_precascaded()) << "one timer per advance";
        advance_to((slot + 1) * span - 1);
        EXPECT_TRUE(has_precascaded());
    }
    advance_to(6 * span);
    EXPECT_TRUE(wheel_.empty());
}

TEST_F(LongSlots, AreNotPrecascadedAfterAShortOne) {
    cancel_if([](int name) { return name >= 2 * each && name % 8 != 0; });
    advance_to(3 * span - 1);
    EXPECT_TRUE(has_precascaded());
    advance_to(4 * span - 1);
    EXPECT_FALSE(is_precascading());
    advance_to(6 * span);
    EXPECT_TRUE(wheel_.empty());
}

TEST_F(LongSlots, AreNotPrecascadedUnlessNext) {
    cancel_if([](int name) { return name / each == 1; });
    advance_to(2 * span - 1);
    EXPECT_FALSE(is_precascading()) << "its timers may still be cancelled";
    advance_to(2 * span + 100);
    EXPECT_TRUE(is_precascading());
    advance_to(6 * span);
    EXPECT_TRUE(wheel_.empty());
}

// While nothing else was armed, a far slot was begun; it may be hours away.
TEST_F(LongSlots, ArePrecascadedAlsoIfAFarOneWasBegun) {
    advance_to(span + 1);
    cancel_if([](int name) { return name >= each; });
    std::deque<timer> far = make_timers<named_wheel>(3);
    for (timer& t : far)
        wheel_.arm_at(t, slot_span(5) + 5);
    advance_to(span + 3);
    ASSERT_TRUE(is_precascading());
    EXPECT_EQ(detail::queue::wheel_access::precascaded_start(wheel_), slot_span(5));
    arm_if([](int name) { return name / each == 2; });
    advance_to(3 * span - 1);
    EXPECT_EQ(detail::queue::wheel_access::precascaded_start(wheel_), 3 * span);
    EXPECT_TRUE(has_precascaded());
    advance_to(4 * span);
    EXPECT_EQ(wheel_.size(), far.size());
    EXPECT_EQ(fired_by(wheel_, slot_span(5) + 5), (names{0, 1, 2}));
}

TEST_F(LongSlots, KeepEqualDeadlinesInOrderWhenTheyAreRestored) {
    advance_to(span + 1);
    cancel_if([](int name) { return name >= each; });
    std::deque<timer> far = make_timers<named_wheel>(5);
    for (std::size_t i = 0; i < 3; ++i)
        wheel_.arm_at(far[i], slot_span(5) + 5);
    advance_to(2 * span - 1);
    ASSERT_TRUE(has_precascaded());
    for (std::size_t i = 3; i < far.size(); ++i)
        wheel_.arm_at(far[i], slot_span(5) + 5);
    arm_if([](int name) { return name / each == 2; });
    advance_to(2 * span);
    ASSERT_EQ(detail::queue::wheel_access::precascaded_start(wheel_), 3 * span);
    advance_to(4 * span);
    EXPECT_EQ(fired_by(wheel_, slot_span(5) + 5), (names{0, 1, 2, 3, 4}));
}

// A long slot says nothing about those on lower levels, even if they share a word of bits.
TEST_F(LongSlots, OnALevelBelowAreNotPrecascaded) {
    wheel_.clear();
    for (timer& t : timers_) {
        const auto step = static_cast<tick>(t.name);
        wheel_.arm_at(t, slot_span(4) + 10 + step * 2741 % slot_span(4));
    }
    const tick now = slot_span(4) + slot_span(3) / 2;
    EXPECT_GT(wheel_.advance(now, [](timer&) {}), 0U) << "and the others are filed again";
    EXPECT_FALSE(is_precascading());
    EXPECT_EQ(wheel_.check(), nullptr);
}

// The least of each pre-cascaded list is cancelled, so that the least is not known any more.
TEST_F(LongSlots, KeepWhatIsKnownAboutTheirOrder) {
    advance_to(2 * span - 1);
    ASSERT_TRUE(has_precascaded());
    std::map<tick, timer*> least;
    for (timer& t : timers_) {
        if (t.name / each != 1) continue;
        timer*& found = least[t.deadline() / slot_span(1)];
        if (found == nullptr || t.deadline() < found->deadline()) found = &t;
    }
    for (const auto& [slot, first] : least)
        wheel_.cancel(*first);
    EXPECT_EQ(wheel_.check(), nullptr);
    advance_to(2 * span);
    EXPECT_FALSE(has_precascaded());
    advance_to(6 * span);
    EXPECT_TRUE(wheel_.empty());
}

TEST_F(LongSlots, CanBeCancelledWhileTheyArePrecascaded) {
    advance_to(span + 300);
    ASSERT_TRUE(is_precascading());
    cancel_if([](int name) { return name / each == 1; });
    EXPECT_FALSE(is_precascading());
    EXPECT_EQ(wheel_.check(), nullptr);
    advance_to(6 * span);
    EXPECT_TRUE(wheel_.empty());
}

TEST_F(LongSlots, HaveABoundWhileTheyArePrecascaded) {
    advance_to(span + 300);
    ASSERT_TRUE(is_precascading());
    cancel_if([](int name) { return name / each == 0; });
    EXPECT_EQ(wheel_.next_bound(), 2 * span);  // what is left of the slot was not walked
    EXPECT_EQ(wheel_.next_expiry(), 2 * span + 2);
    EXPECT_EQ(wheel_.next_bound(), 2 * span + 2);
    advance_to(2 * span - 1);
    ASSERT_TRUE(has_precascaded());
    EXPECT_EQ(wheel_.next_expiry(), 2 * span + 2);
    EXPECT_EQ(wheel_.next_bound(), 2 * span + 2);
    EXPECT_EQ(fired_by(wheel_, 2 * span + 2), names{each});
}

// A timer of period 10 that comes late runs once for each tick it missed, in turn with the others.
TEST(TimingWheel, ArmNextMakesUpForWhatWasMissed) {
    for (std::size_t budget = 1; budget <= 10; ++budget) {
        named_wheel wheel(0);
        timer periodic(1);
        timer at_20(2);
        timer at_45(3);
        timer armed_meanwhile(4);
        wheel.arm_at(periodic, 10);
        wheel.arm_at(at_20, 20);
        wheel.arm_at(at_45, 45);
        names fired;
        while (fired.size() < 7) {
            const names some =
                fired_by(wheel, 55, std::min(budget, 7 - fired.size()), [&](timer& t) {
                    if (t.name == 1) wheel.arm_next(t, t.deadline() + 10);
                    if (t.name == 2) wheel.arm_at(armed_meanwhile, 0);
                    EXPECT_EQ(wheel.check(), nullptr);
                });
            ASSERT_FALSE(some.empty());
            fired.insert(fired.end(), some.begin(), some.end());
            EXPECT_EQ(wheel.next_bound(), wheel.next_expiry());
        }
        EXPECT_EQ(fired, (names{1, 2, 1, 1, 1, 3, 1})) << "budget " << budget;
        EXPECT_EQ(periodic.deadline(), 60U);
        EXPECT_EQ(fired_by(wheel, 60), (names{4, 1}));
    }
}

// What is not after the deadline that fires waits for the next advance, as with arm_at; also when a
// far timer holds the wheel's position behind.
TEST(TimingWheel, ArmNextCannotMakeAnAdvanceEndless) {
    for (const bool held_behind : {false, true}) {
        for (const tick back : {0U, 1U, 50U}) {
            named_wheel wheel(0);
            timer far(1);
            timer stubborn(2);
            timer other(3);
            if (held_behind) wheel.arm_at(far, 3 * slot_span(4) + 77'777);
            fired_by(wheel, 3 * slot_span(4) + 100);
            wheel.arm_after(stubborn, 0);
            wheel.arm_after(other, 10);
            const tick now = wheel.now() + 20;
            const auto again = [&](timer& t) {
                if (t.name == 2) wheel.arm_next(t, t.deadline() - back);
                EXPECT_EQ(wheel.check(), nullptr);
            };
            EXPECT_EQ(fired_by(wheel, now, no_budget, again), (names{2, 3}));
            EXPECT_EQ(stubborn.deadline(), now);
            EXPECT_EQ(wheel.next_bound(), now);
            EXPECT_EQ(fired_by(wheel, now, no_budget, again), names{2});
        }
    }
}

TEST(TimingWheel, ArmNextIsArmAtOutsideACallback) {
    named_wheel wheel(100);
    timer past(1);
    timer future(2);
    timer never(3);
    wheel.arm_next(past, 50);
    wheel.arm_next(future, 150);
    wheel.arm_next(never, never_tick);
    EXPECT_EQ(past.deadline(), 100U);
    EXPECT_EQ(fired_by(wheel, 140), names{1});
    EXPECT_EQ(fired_by(wheel, never_tick), names{2});
    EXPECT_TRUE(never.armed());
}

}  // namespace
}  // namespace verge
