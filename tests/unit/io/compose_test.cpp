#include "unit/io/io_fixture.hpp"
#include <verge/io/as_tuple.hpp>
#include <verge/io/cancel_after.hpp>
#include <verge/io/compose.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/use_future.hpp>

#include <future>
#include <memory>
#include <tuple>
#include <utility>

namespace verge {
namespace {

// Waits some times for the same delay, and gives how often.
struct wait_often {
    steady_timer& timer;
    duration delay;
    int times;
    int done = 0;

    template <class Self>
    void operator()(Self& self, std::error_code error = {}) {
        if (error || done == times) return self.complete(error, done);
        ++done;
        timer.expires_after(delay);
        timer.async_wait(std::move(self));
    }
};

template <class Token = deferred_t>
auto async_wait_often(steady_timer& timer, duration delay, int times, Token&& token = Token()) {
    return async_compose<Token, void(std::error_code, int)>(wait_often{timer, delay, times}, token,
                                                            timer);
}

class Compose : public testing::Test {
protected:
    io_context io;
    steady_timer timer{io};
    std::error_code error;
    int done = -1;
    auto note() {
        return [this](std::error_code e, int n) {
            error = e;
            done = n;
        };
    }
};

TEST_F(Compose, RunsItsPartsInTurn) {
    async_wait_often(timer, 1ms, 3, note());
    EXPECT_EQ(done, -1);
    EXPECT_EQ(io.run(), 3U);
    EXPECT_FALSE(error);
    EXPECT_EQ(done, 3);
}

TEST_F(Compose, TakesAnyToken) {
    std::future<int> number = async_wait_often(timer, 0s, 2, use_future);
    io.run();
    EXPECT_EQ(number.get(), 2);
    io.restart();
    auto later = async_wait_often(timer, 0s, 3);
    EXPECT_EQ(later.get_executor(), timer.get_executor());
    EXPECT_EQ(io.run(), 0U);
    later([&](std::error_code, int n) { done = n; });  // a copy of the function
    io.restart();
    io.run();
    EXPECT_EQ(std::exchange(done, -1), 3);
    std::move(later)(
        as_tuple([&](std::tuple<std::error_code, int> all) { done = std::get<1>(all); }));
    io.restart();
    io.run();
    EXPECT_EQ(std::exchange(done, -1), 3);
    auto own = std::make_unique<int>(7);
    async_wait_often(timer, 0s, 1,
                     [this, own = std::move(own)](std::error_code, int n) { done = n + *own; });
    io.restart();
    io.run();
    EXPECT_EQ(done, 8);
}

TEST_F(Compose, PartsHaveWhatBelongsToTheHandler) {
    allocation_count count;
    const auto one = make_strand(io);
    int inside = 0;
    const auto look = [&](auto& self, std::error_code = {}) {
        EXPECT_EQ(self.get_executor(), one);
        EXPECT_EQ(self.get_io_executor(), timer.get_executor());
        EXPECT_EQ(self.get_allocator(), counting_allocator<int>(count));
        if (inside++ == 1) {
            EXPECT_TRUE(one.running_in_this_thread());
            EXPECT_GT(count.total, 0);
            return self.complete();
        }
        timer.async_wait(std::move(self));
    };
    const auto token =
        bind_executor(one, bind_allocator(counting_allocator<int>(count), [&] { done = 1; }));
    async_compose<decltype(token), void()>(look, token, timer);
    io.run();
    EXPECT_EQ(done, 1);
    EXPECT_EQ(count.live, 0);
}

TEST_F(Compose, HasWorkUntilItIsComplete) {
    io_context other;
    std::optional<io_context> third(std::in_place);
    // A part on another loop: the two that are given have something to wait for.
    const auto token = note();
    async_compose<decltype(token), void(std::error_code, int)>(
        [&, begun = false](auto& self) mutable {
            if (!std::exchange(begun, true)) return post(*third, std::move(self));
            EXPECT_EQ(io.poll(), 0U);
            EXPECT_FALSE(io.stopped());
            EXPECT_EQ(other.poll(), 0U);
            EXPECT_FALSE(other.stopped());
            self.complete(std::error_code(), 1);
            EXPECT_EQ(io.poll(), 0U);
            EXPECT_TRUE(io.stopped());
            EXPECT_EQ(other.poll(), 0U);
            EXPECT_TRUE(other.stopped());
        },
        token, third->get_executor(), timer, other);
    third->run();
    EXPECT_EQ(done, 1);

    done = -1;
    async_wait_often(timer, 1h, 1, note());  // and what is destroyed has none
    io.restart();
    EXPECT_EQ(io.poll(), 0U);
}

TEST_F(Compose, ASlotEndsThePartThatIsPending) {
    cancellation_signal stop;
    async_wait_often(timer, 1h, 3, bind_cancellation_slot(stop.slot(), note()));
    EXPECT_EQ(io.poll(), 0U);
    stop.emit(cancellation_type::total);  // terminal alone is let through
    EXPECT_EQ(io.poll(), 0U);
    stop.emit(cancellation_type::terminal);
    EXPECT_EQ(io.run_for(5s), 1U);
    EXPECT_EQ(error, error::operation_aborted);
    EXPECT_EQ(done, 1);

    io.restart();
    async_wait_often(timer, 1h, 3, cancel_after(1ms, note()));
    io.run_for(10s);
    EXPECT_EQ(error, error::operation_aborted);
}

TEST_F(Compose, TheFilterMayBeChanged) {
    cancellation_signal stop;
    int turn = 0;
    const auto token = bind_cancellation_slot(stop.slot(), note());
    async_compose<decltype(token), void(std::error_code, int)>(
        [&](auto& self, std::error_code e = {}) {
            switch (turn++) {
                case 0:
                    self.reset_cancellation_state(enable_total_cancellation());
                    timer.expires_after(1h);
                    return timer.async_wait(std::move(self));
                case 1:
                    EXPECT_EQ(e, error::operation_aborted);
                    EXPECT_EQ(self.cancelled(), cancellation_type::total);
                    self.reset_cancellation_state(disable_cancellation());
                    EXPECT_EQ(self.cancelled(), cancellation_type::none);
                    timer.expires_after(1ms);
                    return timer.async_wait(std::move(self));
                default:
                    self.complete(e, turn);
            }
        },
        token, timer);
    stop.emit(cancellation_type::total);
    EXPECT_EQ(io.run_one_for(5s), 1U);
    stop.emit(cancellation_type::terminal);
    EXPECT_EQ(io.run_for(10s), 1U);
    EXPECT_FALSE(error);
    EXPECT_EQ(done, 3);
}

// As an initiation, with first arguments of its own.
TEST_F(Compose, ComposedIsAnInitiation) {
    const auto token = note();
    async_initiate<decltype(token), void(std::error_code, int)>(
        composed<void(std::error_code, int)>(
            [this](auto& self, int more, std::error_code e = {}) {
                if (more > 0) {
                    timer.async_wait(
                        [own = std::move(self), more](std::error_code) mutable { own(more - 1); });
                } else {
                    self.complete(e, 7);
                }
            },
            timer),
        token, 2);
    EXPECT_EQ(io.run(), 2U);
    EXPECT_EQ(done, 7);
}

}  // namespace
}  // namespace verge
