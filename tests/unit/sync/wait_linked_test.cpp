// What condition_variable needs of wait(), and what an interrupt leaves behind.

#include "unit/sync/sync_fixture.hpp"

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(WaitLinked);

TYPED_TEST(WaitLinked, ANotifyFromTheHookEndsTheWait) {
    std::atomic<std::uint32_t> word{0};
    const verge::detail::sync::linked_hook hook{
        [](void* context) noexcept {
            EXPECT_EQ(notify_one(*static_cast<std::atomic<std::uint32_t>*>(context)), 1U);
        },
        &word};
    EXPECT_EQ(verge::detail::sync::wait_linked(word, 0, never, hook).why, wait_result::notified);
}

TYPED_TEST(WaitLinked, TheHookIsNotCalledIfTheWaitDoesNotBegin) {
    const std::atomic<std::uint32_t> word{0};
    const verge::detail::sync::linked_hook hook{[](void*) noexcept { FAIL() << "called"; },
                                                nullptr};
    EXPECT_EQ(verge::detail::sync::wait_linked(word, 1, never, hook).why, wait_result::changed);
    interrupt(verge::detail::sync::current());
    EXPECT_EQ(verge::detail::sync::wait_linked(word, 0, never, hook).why, wait_result::interrupted);
}

// An interrupt that comes while a wait is being taken back must not wake the next one, which nobody
// notifies.
TYPED_TEST(WaitLinked, AnInterruptOfAWaitThatDidNotBeginEndsNoOther) {
    constexpr int rounds = 3000;
    const std::atomic<std::uint32_t> word{0};
    std::atomic<bool> over{false};
    std::atomic<bool> last{false};
    team<TypeParam> many;
    verge::detail::sync::waiter& who = many.start([&] {
        for (int i = 0; i < rounds; ++i) {
            const wait_result why = wait(word, 1);
            EXPECT_TRUE(why == wait_result::changed || why == wait_result::interrupted);
            EXPECT_EQ(wait_uninterrupted(word, 0, past), wait_result::timed_out);
        }
        over.store(true);
        while (!last.load())
            TypeParam::yield();
    });
    while (!over.load())
        interrupt(who);
    last.store(true);
}

}  // namespace
}  // namespace verge::fibers
