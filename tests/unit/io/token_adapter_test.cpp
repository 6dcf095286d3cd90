#include "unit/io/io_fixture.hpp"
#include <verge/io/append.hpp>
#include <verge/io/consign.hpp>
#include <verge/io/prepend.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/use_future.hpp>

#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace verge {
namespace {

TEST(TokenAdapter, AppendPutsValuesBehindTheResults) {
    io_context io;
    steady_timer timer(io, 0s);
    int calls = 0;
    timer.async_wait(append(
        [&](std::error_code error, int number, const std::string& text) {
            EXPECT_FALSE(error);
            EXPECT_EQ(number, 7);
            EXPECT_EQ(text, "seven");
            ++calls;
        },
        7, std::string("seven")));
    io.run();
    EXPECT_EQ(calls, 1);
    io.restart();
    std::future<int> number = post(io, append(use_future, 7));
    io.run();
    EXPECT_EQ(number.get(), 7);
}

TEST(TokenAdapter, PrependPutsValuesBeforeTheResults) {
    io_context io;
    steady_timer timer(io, 0s);
    int calls = 0;
    timer.async_wait(prepend(
        [&](int number, char letter, std::error_code error) {
            EXPECT_FALSE(error);
            EXPECT_EQ(number, 7);
            EXPECT_EQ(letter, 'x');
            ++calls;
        },
        7, 'x'));
    io.run();
    EXPECT_EQ(calls, 1);
    io.restart();
    std::future<std::tuple<int, std::error_code>> both = timer.async_wait(prepend(use_future, 7));
    io.run();
    EXPECT_EQ(both.get(), std::make_tuple(7, std::error_code()));
}

TEST(TokenAdapter, ConsignKeepsValuesUntilTheHandlerHasReturned) {
    io_context io;
    auto kept = std::make_shared<int>(7);
    const std::weak_ptr<int> seen = kept;
    auto timer = std::make_unique<steady_timer>(io, 0s);
    steady_timer& wait = *timer;
    int calls = 0;
    wait.async_wait(consign(
        [&](std::error_code error) {
            EXPECT_FALSE(error);
            EXPECT_FALSE(seen.expired());
            ++calls;
        },
        std::move(timer), std::move(kept)));
    EXPECT_FALSE(seen.expired());
    io.run();
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(seen.expired());
}

TEST(TokenAdapter, ValuesMayBeMoveOnly) {
    io_context io;
    int sum = 0;
    const auto add = [&](std::unique_ptr<int> value) { sum += *value; };
    post(io, append(add, std::make_unique<int>(1)));
    post(io, prepend(add, std::make_unique<int>(2)));
    auto later = post(io, append(deferred, std::make_unique<int>(4)));
    io.run();
    EXPECT_EQ(sum, 3);
    std::move(later)(add);
    io.restart();
    io.run();
    EXPECT_EQ(sum, 7);
}

TEST(TokenAdapter, ATokenMayBeUsedAgain) {
    io_context io;
    int sum = 0;
    const auto token = append([&](int value) { sum += value; }, 7);
    post(io, token);
    post(io, token);
    io.run();
    EXPECT_EQ(sum, 14);
}

TEST(TokenAdapter, WhatBelongsToTheHandlerStays) {
    io_context io;
    auto one = make_strand(io);
    int inside = 0;
    const auto look = [&](auto&&...) { inside += one.running_in_this_thread() ? 1 : 100; };
    steady_timer timer(io, 0s);
    timer.async_wait(append(bind_executor(one, look), 1));
    timer.async_wait(prepend(bind_executor(one, look), 1));
    timer.async_wait(consign(bind_executor(one, look), 1));
    timer.async_wait(bind_executor(one, append(look, 1)));
    io.run();
    EXPECT_EQ(inside, 4);
}

}  // namespace
}  // namespace verge
