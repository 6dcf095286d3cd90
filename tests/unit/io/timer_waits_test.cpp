// The waits of a timer, without a timer: what each is told, and where it goes.

#include <verge/io/detail/timer_waits.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace verge::detail::io {
namespace {

// Writes down what it is told.
struct noted_wait : wait_operation {
    noted_wait(char wait_name, std::string& to) : wait_operation(&run), name(wait_name), log(to) {}
    static void run(void* owner, operation* base) {
        auto& self = *static_cast<noted_wait*>(base);
        self.log += self.name;
        if (const message* const m = message_in(owner)) {
            if (m->kind == message::aborted) {
                self.log += '!';
            } else {
                self.log += m->value == nullptr ? '-' : '+';
                self.timer = m->value;
            }
        }
    }
    char name;
    std::string& log;
    void* timer = nullptr;
};

class TimerWaits : public testing::Test {
protected:
    // Runs what was taken out; the log says in which order.
    void complete(op_queue& from) {
        log += ' ';
        while (operation* const op = from.pop())
            op->complete(this);
    }

    std::string log;
    noted_wait a{'a', log};
    noted_wait b{'b', log};
    noted_wait c{'c', log};
    int timer = 0;
    int other = 0;
    timer_waits waits;
    op_queue taken;
};

TEST_F(TimerWaits, AreTakenInOrderAndCounted) {
    EXPECT_TRUE(waits.empty());
    EXPECT_EQ(waits.take(taken, wait_end::expired), 0U);
    for (noted_wait* w : {&a, &b, &c})
        waits.push(w, false, &timer);
    EXPECT_FALSE(waits.empty());
    EXPECT_EQ(waits.take(taken, wait_end::expired), 3U);
    EXPECT_TRUE(waits.empty());
    EXPECT_EQ(log, "");  // one that expires is told nothing
    complete(taken);
    EXPECT_EQ(log, " abc");
}

TEST_F(TimerWaits, AreToldWhenTheyAreAborted) {
    for (noted_wait* w : {&a, &b})
        waits.push(w, false, &timer);
    EXPECT_EQ(waits.take(taken, wait_end::aborted), 2U);
    complete(taken);
    EXPECT_EQ(log, "a!b! ab");
}

TEST_F(TimerWaits, TheOldestOrOneOfThemIsAborted) {
    EXPECT_EQ(waits.abort_first(taken), 0U);
    for (noted_wait* w : {&a, &b, &c})
        waits.push(w, false, &timer);
    EXPECT_EQ(waits.abort(&b, taken), 1U);
    EXPECT_EQ(waits.abort(&b, taken), 0U);  // it is no longer here
    EXPECT_EQ(waits.abort_first(taken), 1U);
    EXPECT_EQ(waits.abort(&c, taken), 1U);
    EXPECT_TRUE(waits.empty());
    complete(taken);
    EXPECT_EQ(log, "b!a!c! bac");
}

TEST_F(TimerWaits, WithASlotKnowTheirTimerUntilTheyAreTakenOut) {
    waits.push(&a, true, &timer);
    EXPECT_EQ(a.timer, &timer);
    waits.push(&b, true, &timer);
    waits.push(&c, true, &timer);
    EXPECT_EQ(waits.abort_first(taken), 1U);
    EXPECT_EQ(a.timer, nullptr);
    EXPECT_EQ(b.timer, &timer);
    EXPECT_EQ(waits.abort(&b, taken), 1U);
    EXPECT_EQ(b.timer, nullptr);
    EXPECT_EQ(waits.take(taken, wait_end::expired), 1U);
    EXPECT_EQ(c.timer, nullptr);
    EXPECT_EQ(log, "a+b+c+a-a!b-b!c-");
    complete(taken);
}

TEST_F(TimerWaits, TakenOverKnowTheirNewTimer) {
    timer_waits next;
    waits.push(&a, false, &timer);
    waits.push(&b, true, &timer);
    next.take_over(waits);
    EXPECT_TRUE(waits.empty());
    next.set_owner(&other);
    EXPECT_EQ(b.timer, &other);
    // The list that was left has no slots any more: what it gets now is told nothing.
    log.clear();
    waits.push(&c, false, &timer);
    EXPECT_EQ(waits.take(taken, wait_end::expired), 1U);
    EXPECT_EQ(log, "");
    EXPECT_EQ(next.take(taken, wait_end::expired), 2U);
    EXPECT_EQ(b.timer, nullptr);
    log.clear();
    complete(taken);
    EXPECT_EQ(log, " cab");
}

TEST_F(TimerWaits, WithoutASlotAreNotToldOfTheirTimer) {
    timer_waits next;
    waits.push(&a, false, &timer);
    next.take_over(waits);
    next.set_owner(&other);
    EXPECT_EQ(next.abort_first(taken), 1U);
    EXPECT_EQ(log, "a!");
    complete(taken);
}

TEST_F(TimerWaits, AreCountedForTheLoopWhenTheyBecomeReady) {
    ready_sink sink;
    sink.count = 5;
    sink.finished = 3;
    waits.push(&a, false, &timer);
    waits.push(&b, false, &timer);
    waits.take(sink, wait_end::aborted);
    EXPECT_EQ(sink.count, 7U);
    EXPECT_EQ(sink.finished, 5);
    complete(sink.ready);
    EXPECT_EQ(log, "a!b! ab");
}

}  // namespace
}  // namespace verge::detail::io
