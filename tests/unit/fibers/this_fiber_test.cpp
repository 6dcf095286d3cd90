#include "unit/fibers/fiber_fixture.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace verge::fibers {
namespace {

TEST(ThisFiber, NeverWakesEarly) {
    scheduler fibers(workers(2));
    const auto sleep = [] {
        for (const duration d : {duration(1), duration(999), duration(50us), duration(3ms)}) {
            const time_point deadline = now() + d;
            EXPECT_EQ(this_fiber::sleep_for(d), sleep_result::elapsed);
            EXPECT_GE(now(), deadline);
            EXPECT_EQ(this_fiber::sleep_until(now() + d), sleep_result::elapsed);
        }
    };
    std::vector<fiber<>> all;
    for (int i = 0; i < 50; ++i)
        all.push_back(fibers.spawn(sleep));
    all.push_back(fibers.spawn(sleep, {.stack = stack_kind::native}));
    sleep();
    for (fiber<>& f : all)
        f.join();
}

TEST(ThisFiber, ZeroYields) {
    scheduler fibers(workers(1));
    fibers
        .spawn([&] {
            for (const duration none : {duration(0), duration(-1), duration::min()}) {
                bool ran = false;
                fiber<> other = fibers.spawn([&] { ran = true; });
                EXPECT_FALSE(ran);
                EXPECT_EQ(this_fiber::sleep_for(none), sleep_result::elapsed);
                EXPECT_TRUE(ran);
                other.join();
            }
            bool ran = false;
            fiber<> other = fibers.spawn([&] { ran = true; });
            EXPECT_EQ(this_fiber::sleep_until(time_point{}), sleep_result::elapsed);
            EXPECT_TRUE(ran);
            other.join();
        })
        .join();
    EXPECT_EQ(this_fiber::sleep_for(0s), sleep_result::elapsed);
}

TEST(ThisFiber, SleepsForAsLongAsOneLikes) {
    scheduler fibers(workers(1));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        tally woken;
        const fiber<> f = fibers.spawn(
            [&] {
                EXPECT_EQ(this_fiber::sleep_until(never), sleep_result::interrupted);
                woken.add();
                const no_unwind here;
                EXPECT_EQ(this_fiber::sleep_for(std::chrono::hours::max()), sleep_result::stopped);
                EXPECT_EQ(this_fiber::sleep_for(duration::max()), sleep_result::stopped);
            },
            {.stack = kind});
        f.interrupt();
        ASSERT_TRUE(woken.reaches(1));
        EXPECT_FALSE(f.wait_for(1ms));
        f.request_stop();
        f.wait();
    }
}

// Sleeps are asked to end a little early once it is known how long waking takes, and wait for the
// rest awake.
TEST(ThisFiber, ASleepIsNotEarlyHoweverEarlyItIsAskedToEnd) {
    fibers::scheduler scheduler;
    int early = 0;
    scheduler
        .spawn([&early] {
            for (int i = 0; i < 300; ++i) {
                const time_point deadline = deadline_after(steady_source{}.now(), 500us);
                EXPECT_EQ(this_fiber::sleep_until(deadline), sleep_result::elapsed);
                if (steady_source{}.now() < deadline) ++early;
            }
        })
        .join();
    EXPECT_EQ(early, 0);
}

TEST(ThisFiber, AnInterruptBeforeTheSleepIsRemembered) {
    scheduler fibers(workers(1));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        door interrupted;
        const fiber<> f = fibers.spawn(
            [&] {
                EXPECT_TRUE(interrupted.wait());
                EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::interrupted);
                EXPECT_EQ(this_fiber::sleep_for(0s), sleep_result::elapsed);
            },
            {.stack = kind});
        f.interrupt();
        interrupted.open();
        f.wait();
        // Also one that yields.
        door again;
        const fiber<> g = fibers.spawn(
            [&] {
                EXPECT_TRUE(again.wait());
                EXPECT_EQ(this_fiber::sleep_for(0s), sleep_result::interrupted);
            },
            {.stack = kind});
        g.interrupt();
        again.open();
        g.wait();
    }
}

TEST(ThisFiber, ExitUnwindsTheStack) {
    scheduler fibers(workers(1));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        std::vector<int> order;
        fibers
            .spawn(
                [&, last = at_end([&] { order.push_back(3); })] {
                    const at_end outer([&] { order.push_back(2); });
                    try {
                        const at_end inner([&] {
                            this_fiber::yield();  // may wait while it unwinds
                            order.push_back(1);
                        });
                        this_fiber::exit();
                    } catch (const std::exception&) {
                        order.push_back(-1);
                    }
                    order.push_back(-2);
                },
                {.stack = kind})
            .join();
        EXPECT_EQ(order, (std::vector{1, 2, 3}));
    }
    EXPECT_THROW(this_fiber::exit(), std::logic_error) << "not in a fiber";
}

struct witness {
    std::vector<int>* log = nullptr;
    int number = 0;
    ~witness() {
        if (log != nullptr) log->push_back(number);
    }
};

TEST(ThisFiber, LocalsAreDestroyedAtTheEnd) {
    scheduler fibers(workers(1));
    const std::array<fiber_local<witness>, 3> locals;
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        std::vector<int> order;
        fibers
            .spawn(
                [&] {
                    for (const int i : {1, 2, 0}) {  // not in the order in which they were declared
                        locals[static_cast<std::size_t>(i)]->log = &order;
                        locals[static_cast<std::size_t>(i)]->number = i;
                    }
                    this_fiber::yield();
                    EXPECT_EQ(locals[1]->number, 1);
                },
                {.stack = kind})
            .join();
        EXPECT_EQ(order, (std::vector{0, 2, 1})) << "last set first";
    }
    EXPECT_THROW(static_cast<void>(*locals[0]), std::logic_error) << "fibers only";
}

TEST(ThisFiber, EachHasItsOwnLocals) {
    scheduler fibers(workers(2));
    const fiber_local<int> number;
    std::vector<fiber<>> all;
    for (int i = 0; i < 200; ++i) {
        all.push_back(fibers.spawn([&, i] {
            EXPECT_EQ(*number, 0);
            *number = i;
            for (int n = 0; n < 10; ++n) {
                this_fiber::yield();
                EXPECT_EQ(*number, i);
            }
        }));
    }
    for (fiber<>& f : all)
        f.join();
}

// Destroyed at the end of the program, perhaps after the library's own variables: ASan would tell.
const fiber_local<std::string> of_the_program;

TEST(ThisFiber, ALocalMayBeAGlobalVariable) {
    scheduler fibers(workers(1));
    fibers.spawn([] { of_the_program->assign(100, 'x'); }).join();
    fibers.spawn([] { EXPECT_TRUE(of_the_program->empty()); }).join();
}

// A value whose constructor, and destructor, ask for other values.
const fiber_local<std::string>& name_of_it() {
    static const fiber_local<std::string> one;
    return one;
}
struct needy {
    needy() : text(&*name_of_it()) { *text = std::string(100, 'n'); }
    ~needy() { EXPECT_EQ(*name_of_it(), std::string(100, 'n')); }
    std::string* text;
};

TEST(ThisFiber, ALocalMayNeedAnother) {
    scheduler fibers(workers(1));
    const fiber_local<needy> outer;
    fibers.spawn([&] { EXPECT_EQ(outer->text, &*name_of_it()); }).join();
}

std::atomic<int> late_ones_made{0};
std::atomic<int> late_ones_alive{0};
struct late_one {
    late_one() : alive(late_ones_alive) { ++late_ones_made; }
    counted alive;
};
const fiber_local<late_one>& made_late() {
    static const fiber_local<late_one> one;
    return one;
}
struct ends_with_a_late_one {
    ~ends_with_a_late_one() { static_cast<void>(*made_late()); }
};

TEST(ThisFiber, ALocalMadeByADestructorIsDestroyedToo) {
    scheduler fibers(workers(1));
    const fiber_local<ends_with_a_late_one> first;
    fibers.spawn([&] { static_cast<void>(*first); }).join();
    EXPECT_EQ(late_ones_made, 1);
    EXPECT_EQ(late_ones_alive, 0);
}

TEST(ThisFiber, HasAName) {
    scheduler fibers(workers(1));
    fibers
        .spawn(
            [] {
                EXPECT_EQ(this_fiber::name(), "given");
                this_fiber::set_name(std::string(200, 'n'));
                EXPECT_EQ(this_fiber::name(), std::string(200, 'n'));
            },
            {.name = "given"})
        .join();
    fibers
        .spawn([] {
            EXPECT_EQ(this_fiber::name(), "");
            this_fiber::set_name("taken");
            EXPECT_EQ(this_fiber::name(), "taken");
        })
        .join();
    this_fiber::set_name("nobody");
    EXPECT_EQ(this_fiber::name(), "");
}

TEST(ThisFiber, OnAPlainThreadThereIsNone) {
    EXPECT_FALSE(this_fiber::id());
    EXPECT_FALSE(this_fiber::stop_requested());
    EXPECT_EQ(scheduler::current(), nullptr);
    this_fiber::yield();
}

// ---- what belongs to a fiber, on whatever thread it goes on -------------------------------------

TEST(ThisFiber, KeepsItsErrno) {
    scheduler fibers(workers(2));
    std::vector<fiber<>> all;
    for (int i = 1; i <= 20; ++i) {
        all.push_back(fibers.spawn([i] {
            this_errno() = i;
            for (int n = 0; n < 50; ++n) {
                this_fiber::yield();
                ASSERT_EQ(this_errno(), i);
                this_fiber::sleep_for(duration(n * 100));
                ASSERT_EQ(this_errno(), i);
            }
        }));
    }
    for (fiber<>& f : all)
        f.join();
}

TEST(ThisFiber, KeepsItsErrnoOnTheOtherWorker) {
    scheduler fibers(workers(2));
    fibers
        .spawn([] {
            for (int i = 1; i < 50; ++i) {
                this_errno() = i;
                const on_the_other_worker moved;
                EXPECT_EQ(this_errno(), i);
            }
        })
        .join();
}

TEST(ThisFiber, RethrowsOnTheOtherWorker) {
    scheduler fibers(workers(2));
    fibers
        .spawn([] {
            for (int i = 0; i < 50; ++i) {
                try {
                    throw i;
                } catch (...) {
                    const on_the_other_worker moved;
                    EXPECT_EQ(std::uncaught_exceptions(), 0);
                    try {
                        throw;
                    } catch (const int caught) {
                        EXPECT_EQ(caught, i);
                    }
                }
                EXPECT_EQ(std::current_exception(), nullptr);
            }
        })
        .join();
}

TEST(ThisFiber, YieldsInACatchBlock) {
    scheduler fibers(workers(2));
    std::vector<fiber<>> all;
    for (int i = 0; i < 100; ++i) {
        all.push_back(fibers.spawn([i] {
            for (int n = 0; n < 20; ++n) {
                try {
                    throw i * 100 + n;
                } catch (...) {
                    this_fiber::yield();
                    EXPECT_THROW(
                        {
                            try {
                                throw;
                            } catch (const int caught) {
                                EXPECT_EQ(caught, i * 100 + n);
                                this_fiber::sleep_for(1us);
                                throw;
                            }
                        },
                        int);
                }
            }
        }));
    }
    for (fiber<>& f : all)
        f.join();
}

// The compiler may keep the address of a thread-local variable in a register, across a suspension,
// after which the fiber is on another thread: the library must not be caught by that.
TEST(ThisFiber, KnowsItselfOnTheOtherWorker) {
    scheduler fibers(workers(2));
    const fiber_local<int> local;
    fiber<> f = fibers.spawn([&] {
        const fiber_id self = this_fiber::id();
        *local = 5;
        for (int i = 0; i < 100; ++i) {
            const on_the_other_worker moved;
            // Had it looked for itself where it was, it would have found who is there now.
            EXPECT_EQ(this_fiber::id(), self);
            EXPECT_EQ(scheduler::current(), &fibers);
            EXPECT_EQ(*local, 5);
            // And what it spawns and wakes goes through the worker that it is on.
            EXPECT_EQ(fibers.spawn(urgent, [] { return 1; }).join(), 1);
            EXPECT_EQ(this_fiber::id(), self);
        }
    });
    f.join();
}

}  // namespace
}  // namespace verge::fibers
